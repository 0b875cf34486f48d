"""Decides which stage of a message's way a function belongs to; knows nothing of clocks or processes.

A stack belongs to the innermost of its functions that a rule names. What no rule names is the loop's and gRPC's.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.budget.sample import Stack

LOOP = "event loop, gRPC, wake-ups"
Rules = tuple[tuple[str, tuple[str, ...]], ...]
"""Stage, and how its functions, as `name (file)`, begin, or where they are. The first stage that fits counts."""

_STORE: Rules = (
    ("LMDB commit (its thread)", (
        "(storage/disk.py)", "(storage/room.py)", "(storage/commit_log.py)", "(storage/log_format.py)",
        "(storage/recent.py)", "(storage/reading.py)", "(storage/writing.py)", "(storage/folding.py)",
        "_worker (concurrent",
    )),
    ("group, to the writer and back", (
        "GroupCommit.", "Steps.begin", "Steps.end", "Node._write", "Node._commit", "ThreadPoolExecutor.submit",
    )),
)  # fmt: skip
_TIME: Rules = (
    ("time, heartbeats, upkeep", (
        "Node._tick", "Node._pass_time", "Session._write_beats", "Session._read_beats", "(failover/",
        "(replica/operations/operator.py)", "(replica/peer/watch.py)", "Maintenance.", "Manager._watch", "Health.look",
        "Domain.on_tick",
        "Mastership.on_tick", "tandemq-http",
    )),
)  # fmt: skip
_MASTER: Rules = (
    ("record", ("(storage/records.py)", "DomainLog.")),
    ("deliver", (
        "(replica/core/delivery/consumers.py)", "(replica/core/messages/bodies.py)", "ConsumeStream._write",
        "ConsumeStream.deliver",
        "ConsumeStream.push", "(replica/machine/plan/lease.py)",
    )),
    ("settle", ("ConsumeStream._read", "SettleWaiter", "(replica/machine/plan/settle.py)", "Orders._settle")),
    ("acknowledge", (
        "ack_of", "enqueue_done", "BatchWaiter.answer", "ProduceStream._write",
        "_pack (replica/services/messages/produce.py)",
        "Orders.on_committed", "(replica/core/mastership/commit_rule.py)", "Orders._enqueue.<locals>",
        "header_of (replica/services/answers.py)",
    )),
    ("decode and check", (
        "ProduceStream._parse", "_body (replica/services/messages/produce.py)", "columns_of", "check_content",
        "problem_of_frame", "BatchWaiter.__init__", "(replica/machine/plan/columns.py)",
        "(replica/machine/plan/content.py)",
    )),
    ("order", ("(replica/core/ordering/orders.py)", "(replica/machine/", "(replica/core/ordering/room.py)",
        "Domain.submit")),
    ("replicate", ("Session._write_data", "(replica/core/replication/sync_source.py)", "is_busy")),
    ("the peer's acknowledgements", ("Session._read_data",)),
    ("decode and check", ("ProduceStream._submit", "ProduceStream._read", "EnqueueCall", "PendingEnqueue")),
)  # fmt: skip
_REPLICA: Rules = (
    ("record", ("(storage/records.py)", "DomainLog.")),
    (
        "apply",
        (
            "(replica/machine/",
            "(replica/core/replication/sync_target.py)",
            "(replica/core/state/shared.py)",
            "(replica/core/ordering/orders.py)",
        ),
    ),
    ("receive records", ("Session._read_data",)),
    ("acknowledge", ("Session._write_data",)),
)
_CLIENT: Rules = (
    ("application", ("(load.py)", "(client.py)")),
    ("deliver", ("(tandemq/client/delivery.py)", "(tandemq/client/parts.py)", "Consumer._on_frame", "Consumer._read",
                 "Consumer._take", "Consumer.batches")),
    ("settle", ("(tandemq/client/settling.py)", "Consumer._write", "Consumer.settle", "Consumer._on_settled")),
    ("receipts", (
        "(tandemq/client/acks.py)", "Producer._read", "Producer._on_frame", "Outbox.on_ack",
        "(tandemq/client/receipts.py)",
    )),
    ("batch and send", ("(tandemq/client/outbox.py)", "(tandemq/client/producer.py)")),
)  # fmt: skip
_FLOOR: Rules = (
    ("LMDB commit (its thread)", ("Store.commit", "_worker (concurrent")),
    ("group, to the writer and back", ("Log.write", "ThreadPoolExecutor.submit")),
    ("deliver", ("Handlers.consume.<locals>",)),
    ("settle", ("Handlers.consume",)),
    ("acknowledge", ("Handlers.produce.<locals>", "Handlers.replicate.<locals>", "Log.tell")),
    ("decode and check", ("Handlers.produce", "Log.append")),
    ("receive records", ("Handlers.replicate", "Log.extend")),
    ("the peer's acknowledgements", ("Log.forward.<locals>",)),
    ("replicate", ("Log.forward",)),
)
_FLOOR_CLIENT: Rules = (
    ("deliver", ("consume (",)),
    ("settle", ("consume.<locals>",)),
    ("receipts", ("enqueue.<locals>",)),
    ("batch and send", ("enqueue (",)),
)
RULES: dict[tuple[str, str], Rules] = {
    ("ours", "master"): _MASTER + _STORE + _TIME,
    ("ours", "replica"): _REPLICA + _STORE + _TIME,
    ("ours", "client"): _CLIENT,
    ("floor", "master"): _FLOOR,
    ("floor", "replica"): _FLOOR,
    ("floor", "client"): _FLOOR_CLIENT,
}
ORDER = (
    "application", "batch and send", "decode and check", "order", "record", "group, to the writer and back",
    "LMDB commit (its thread)", "replicate", "receive records", "apply", "the peer's acknowledgements", "acknowledge",
    "receipts", "deliver", "settle", "time, heartbeats, upkeep", LOOP,
)  # fmt: skip
"""Stages, as a message meets them."""


def stage_of(stack: Stack, rules: Rules) -> str:
    """Where one stack belongs."""
    for function in reversed(inside(stack)):
        for stage, names in rules:
            if any(name in function if name.startswith("(") else function.startswith(name) for name in names):
                return stage
    return LOOP


def inside(stack: Stack) -> Stack:
    """What the loop has called, where the stack has one: what is below it started the process and does nothing more."""
    for place, function in enumerate(stack):
        if function.startswith("Runner.run ("):
            return (stack[0], *stack[place + 1 :])
    return stack


def budget(weights: Mapping[Stack, float], rules: Rules, cpu_us: float) -> dict[str, float]:
    """Microseconds a message by stage, of a process that uses so many for one in all."""
    found: dict[str, float] = {}
    for stack, weight in weights.items():
        stage = stage_of(stack, rules)
        found[stage] = found.get(stage, 0.0) + weight * cpu_us
    return found

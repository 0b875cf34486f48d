"""Metrics of messages and clients: sums of each domain, and the single queues as far as their number is bounded.

Read at each scrape, by another thread than the loop's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from replica.machine import Sums
from replica.machine.features.readers import all_readers
from replica.machine.state.system_names import target_of
from replica.machine.statistics import first_queues
from replica.operations.manager_stats import TOTALS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from replica.machine import Machine, QueueState
    from replica.machine.state.state import State
    from replica.node.members import Members

QUEUES_MAX = 1_000
"""Of one domain, by name. Each has the series below; the sums of a domain are over all its queues."""
STATES = ("ready", "blocked", "leased", "delayed", "dying")


def queue_metrics(members: Members) -> Iterable[Metric]:
    """All of them."""
    machines = [(name, each.shared.machine) for name, each in members.by_name.copy().items()]
    known = [(name, machine) for name, machine in machines if machine is not None]
    yield from _sums(members, known)
    yield from _single(known)
    yield from _stages(known)
    yield waiting_elsewhere([(name, machine.state) for name, machine in known])
    yield from sides_behind([(name, machine.state) for name, machine in known])
    yield from _clients(members)
    yield _units(members)
    yield from _readers(known)
    later = CounterMetricFamily(
        "tandemq_refused_after_accept", "ONE_WAY: accepted by this member, refused later.", labels=["queue"]
    )
    for queue, count in dict(members.refused_later).items():
        later.add_metric([queue], count)
    yield later


def _sums(members: Members, machines: list[tuple[str, Machine]]) -> Iterable[Metric]:
    queues = GaugeMetricFamily("tandemq_queues", "Queues.", labels=["domain"])
    held = GaugeMetricFamily("tandemq_messages", "Messages in all queues, by state.", labels=["domain", "state"])
    size = GaugeMetricFamily("tandemq_message_bytes", "Payload bytes in all queues.", labels=["domain"])
    happened = CounterMetricFamily(
        "tandemq_message_events", "What happened to messages, also of queues that are gone.", labels=["domain", "event"]
    )
    for name, machine in machines:
        sums = Sums(members.member)
        sums.add(machine.state)
        queues.add_metric([name], sums.queues)
        size.add_metric([name], sums.bytes)
        for state in STATES:
            held.add_metric([name, state], getattr(sums, state))
        for event in TOTALS:
            happened.add_metric([name, event], getattr(sums.totals, event))
    return [queues, held, size, happened]


def _single(machines: list[tuple[str, Machine]]) -> Iterable[Metric]:
    labels = ["domain", "queue"]
    held = GaugeMetricFamily("tandemq_queue_messages", "Messages that it holds, whatever their state.", labels=labels)
    enqueued = CounterMetricFamily("tandemq_enqueued", "Messages accepted.", labels=labels)
    acked = CounterMetricFamily("tandemq_settled", "Messages settled by ack.", labels=labels)
    dead = CounterMetricFamily("tandemq_dead_lettered", "Messages moved to its dead-letter queue.", labels=labels)
    dying = GaugeMetricFamily("tandemq_queue_dying", "Messages held back on that way.", labels=labels)
    for name, machine in machines:
        for queue in first_queues(machine.state, QUEUES_MAX):
            at = [name, queue.name]
            held.add_metric(at, queue.length)
            enqueued.add_metric(at, queue.totals.enqueued)
            acked.add_metric(at, queue.totals.acked)
            if _has_dead(queue):
                dead.add_metric(at, queue.totals.dead_lettered)
                dying.add_metric(at, queue.dying.size)
    return [held, enqueued, acked, dead, dying]


def _readers(machines: list[tuple[str, Machine]]) -> Iterable[Metric]:
    readers = GaugeMetricFamily("tandemq_journal_readers", "Named readers of the journal.", labels=["domain"])
    lost = CounterMetricFamily(
        "tandemq_journal_readers_lost", "How often one has lost its place, ever.", labels=["domain"]
    )
    lag = GaugeMetricFamily(
        "tandemq_journal_reader_lag", "Records between its place and the end.", labels=["domain", "reader"]
    )
    for name, machine in machines:
        known = all_readers(machine.state)
        readers.add_metric([name], len(known))
        lost.add_metric([name], machine.state.readers_lost)
        for reader in known:
            lag.add_metric([name, reader.name], max(0, machine.state.commit_index + 1 - reader.place.log_index))
    return [readers, lost, lag]


def _has_dead(queue: QueueState) -> bool:
    """Most never have: they have no such series."""
    return bool(queue.totals.dead_lettered or queue.dying.size)


def _stages(machines: list[tuple[str, Machine]]) -> Iterable[Metric]:
    staged = GaugeMetricFamily("tandemq_staged_rows", "Rows that are in no queue yet.", labels=["domain"])
    size = GaugeMetricFamily("tandemq_staged_bytes", "Payload bytes of them.", labels=["domain"])
    ended = CounterMetricFamily("tandemq_stages_ended", "Stages that ended, by how.", labels=["domain", "cause"])
    for name, machine in machines:
        stages = machine.state.stages
        staged.add_metric([name], stages.rows)
        size.add_metric([name], stages.payload_bytes)
        for cause, count in stages.totals._asdict().items():
            ended.add_metric([name, cause], count)
    return [staged, size, ended]


def waiting_elsewhere(states: list[tuple[str, State]]) -> Metric:
    """Of each transmission queue; walks over the queues."""
    waiting = GaugeMetricFamily(
        "tandemq_xmit_waiting", "Messages for another manager that are not there yet.", labels=["domain", "target"]
    )
    for name, state in states:
        for queue in list(state.queues.values()):
            if target := target_of(queue.name):
                waiting.add_metric([name, str(target)], queue.length)
    return waiting


def sides_behind(states: list[tuple[str, State]]) -> Iterable[Metric]:
    """Of each side of queues with PRODUCER replication, by the last record of it."""
    labels = ["domain", "queue", "side"]
    lost = GaugeMetricFamily("tandemq_side_lost", "1: it has lost its place, until it begins anew.", labels=labels)
    lag = GaugeMetricFamily(
        "tandemq_side_lag",
        "Messages that a side has not settled, and that the queue holds for it.",
        labels=labels,
    )
    for name, state in states:
        for queue in list(state.sided.values())[:QUEUES_MAX]:
            waiting = 0 if queue.selection is None else queue.ready_count
            for side, passed in list((queue.passed or {}).items()):
                lag.add_metric([name, queue.name, side], max(0, queue.visible_end - passed + waiting))
            for side in [*(queue.passed or {}), *queue.lost]:
                lost.add_metric([name, queue.name, side], side in queue.lost)
    return [lag, lost]


def _units(members: Members) -> Metric:
    ended = CounterMetricFamily(
        "tandemq_units",
        "Units of work that were open and had something in them, by how they ended.",
        labels=["domain", "outcome"],
    )
    for name, domain in members.by_name.copy().items():
        for ending, count in domain.orders.units.ended.items():
            ended.add_metric([name, ending.value], count)
    return ended


def _clients(members: Members) -> Iterable[Metric]:
    attached = GaugeMetricFamily("tandemq_clients", "Clients with an open stream.", labels=["kind", "place"])
    counts = members.attached.kinds()
    for kind in ("consumer", "producer"):
        for place in ("local", "remote"):
            attached.add_metric([kind, place], counts[kind == "producer", place == "remote"])
    waiters = GaugeMetricFamily("tandemq_waiters", "Senders that wait for room.", labels=["domain"])
    for name, domain in members.by_name.copy().items():
        waiters.add_metric([name], len(domain.orders.room))
    return [attached, waiters]

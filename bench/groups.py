"""Measures what the order of groups costs the queue machine: CPU a message, with many queued over few groups and many.

In one process, without network or disk: the machine alone, as the master runs it. One JSON line each; read each figure
as a ratio to that of the queue without groups, in the same run.

Example: python bench/groups.py --messages 100000 --runs 1
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from machine import facts

from replica.machine import Columns, EnqueueCall, Fresh, LeaseCall, Limits, Machine, QueueCall, SettleCall
from replica.machine.plan.enqueue import plan_enqueue
from replica.machine.plan.lease import plan_lease
from replica.machine.plan.queue import plan_queue
from replica.machine.plan.settle import plan_settle
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_CREATE, RecordHeader
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.queue_admin_service_pb2 import GROUP_MODE_NONE, GROUP_MODE_ORDERED, QueueConfig
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, Settlement

FRAME = 100
SIZE = 100
CREDIT = 100  # messages in one lease


class Queue:
    """One queue of a machine whose records are committed as they are made."""

    def __init__(self, groups: int) -> None:
        self._groups = groups
        self._log_index = 0
        self._sequence = 1
        self._random = random.Random(5)
        self.machine = Machine(1, ("a",), Limits(queue_length_max=1 << 40, dedup_sequences=1_000))
        config = QueueConfig(group_mode=GROUP_MODE_ORDERED if groups else GROUP_MODE_NONE)
        self._order(
            plan_queue(
                self.machine.state, self.machine.member_names, 0, QueueCall(QUEUE_ACTION_CREATE, "q", config=config)
            )
        )

    def _order(self, header: RecordHeader) -> int:
        self._log_index += 1
        lease_id = self.machine.apply(self._log_index, 1, header).lease_id
        self.machine.commit(self._log_index)
        return lease_id

    def batches(self, count: int) -> Iterator[Columns]:
        """Each message of any of the groups."""
        for _ in range(count // FRAME):
            ids = [f"g{self._random.randrange(self._groups)}" for _ in range(FRAME)] if self._groups else []
            yield Columns(FRAME, FRAME * SIZE, SIZE, [SIZE] * FRAME, (), (), (), group_ids=ids)

    def send(self, batches: list[Columns]) -> int:
        for columns in batches:
            plan = plan_enqueue(self.machine.state, 0, EnqueueCall("q", b"p", self._sequence, columns, "a"))
            assert isinstance(plan, Fresh)
            self._order(plan.header)
            self._sequence += FRAME
        return len(batches) * FRAME

    def take(self, count: int) -> int:
        """Received and acknowledged, as many at once as the groups allow."""
        taken = 0
        while taken < count:
            header = plan_lease(self.machine.state, 0, LeaseCall(1, CREDIT, 1 << 30, b"c", 60_000, immediate=False))
            assert header is not None
            ranges = [IndexRange(first=part.first, count=part.count) for part in header.lease.ranges]
            settlement = Settlement(lease_id=self._order(header), outcome=OUTCOME_ACK, ranges=ranges)
            plan = plan_settle(self.machine.state, 0, SettleCall("q", [settlement]))
            assert plan.header is not None
            self._order(plan.header)
            taken += sum(part.count for part in ranges)
        return taken


def cpu_us(work: Callable[[], int]) -> float:
    """A message."""
    began = time.process_time()
    count = work()
    return (time.process_time() - began) * 1e6 / count


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measured(groups: int, messages: int, taken: int) -> dict[str, tuple[float, str]]:
    """By what was done, with its unit; once."""
    queue = Queue(groups)
    batches = list(queue.batches(messages))
    before = resident()
    send_us = cpu_us(lambda: queue.send(batches))
    grown = (resident() - before) / messages
    take_us = cpu_us(lambda: queue.take(taken))
    data = queue.machine.snapshot()
    restored: list[Machine] = []

    def restore() -> int:
        restored.append(Machine.restore(data, ("a",), queue.machine.state.limits))
        return messages - taken

    restore_us = cpu_us(restore)
    return {
        "enqueue": (send_us, "us/msg"),
        "receive and acknowledge": (take_us, "us/msg"),
        "read back at a start": (restore_us, "us/msg"),
        "memory": (grown, "B/msg"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000, help="queued at once; default: 1,000,000")
    parser.add_argument("--runs", type=int, default=3, help="each in a process of its own; default: 3")
    parser.add_argument("--one", type=int, metavar="GROUPS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measured(options.one, options.messages, options.messages // 10)))
        return
    found: dict[tuple[int, str, str], list[float]] = {}
    for _ in range(options.runs):
        for groups in (0, 1, 1_000, options.messages):
            again = [sys.executable, __file__, "--one", str(groups), "--messages", str(options.messages)]
            done = subprocess.run(again, capture_output=True, text=True, check=True)
            for name, (value, unit) in json.loads(done.stdout).items():
                found.setdefault((groups, name, unit), []).append(round(value, 2))
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    for (groups, name, unit), values in found.items():
        what = f"{options.messages:,} queued, {groups:,} groups: {name}" if groups else f"no groups: {name}"
        spread = {"median": statistics.median(values), "min": min(values), "max": max(values)}
        line = {"kind": "groups", "workload": what, "side": "master", "unit": unit, "runs": values, **spread}
        print(json.dumps({**line, "time": now, **facts()}), flush=True)


if __name__ == "__main__":
    main()

"""What can be switched off, and the loads that show what it is worth. Each row of `LEVERS` is a pair of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Unpack

from replica.core.delivery.ahead import Ahead
from replica.node import writer
from replica.node.writer import Args, WriterThread
from tandemq.client import settling
from tandemq.client.outbox import Outbox
from tandemq.grpc_engine import OFF, SETTING

SHIPPED = "as shipped"
"""The variant that all others are divided by."""


def _no_small_batches() -> None:
    began = Outbox.__init__

    def begin(self: Outbox, queue: str, *, messages_max: int, bytes_max: int, batches_max: int, **_: bool) -> None:
        began(self, queue, messages_max=messages_max, bytes_max=bytes_max, batches_max=batches_max, holds_small=False)

    Outbox.__init__ = begin  # type: ignore[method-assign]  # of this process alone
    settling.SMALL_MESSAGES = 0


def _no_short_commits() -> None:
    WriterThread.run_alone = WriterThread.run  # type: ignore[method-assign]  # of this process alone


def _nothing_ahead() -> None:
    Ahead.lease = _not_leased  # type: ignore[method-assign]  # of this process alone


def _not_leased(_self: Ahead, _turn: object, _op: object, _log_index: int) -> None:
    """As if it were never plain."""


SWITCHES: Mapping[str, Callable[[], None]] = MappingProxyType(
    {"small-batches": _no_small_batches, "short-commits": _no_short_commits}
)
"""What a process does before anything else, to be without it; see `bench.levers.switched`."""


def _patient_commits() -> None:
    writer.WAIT_S = 1.0  # type: ignore[misc]  # of this process alone


def _hand_over() -> None:
    run_alone = WriterThread.run_alone

    async def twice(self: WriterThread, work: Callable[[Unpack[Args]], None], *args: *Args) -> None:
        await self.run(time.monotonic)  # type: ignore[arg-type]  # what it answers is not looked at
        self._is_quick = True
        await run_alone(self, work, *args)

    WriterThread.run_alone = twice  # type: ignore[method-assign]  # of this process alone


ADDED: Mapping[str, Callable[[], None]] = MappingProxyType(
    {"patient-commits": _patient_commits, "hand-over": _hand_over, "leased-ahead": _nothing_ahead}
)
"""For the guard of system calls (`bench.guard.calls`). A busy disk does not change the way that a short commit takes;
and, planted, one more hand-over to a thread for each of them. Without `leased-ahead` nothing is leased behind its own
record (docs/decisions/0057): no load of the table has a consumer.
"""


def switch_off(names: str) -> None:
    """Each of these, divided by commas; none of an empty text. KeyError: there is none of that name."""
    for name in filter(None, names.split(",")):
        {**SWITCHES, **ADDED}[name]()


@dataclass(frozen=True, slots=True)
class Lever:
    """One variant of the product."""

    name: str
    off: tuple[str, ...] = ()
    """Of SWITCHES and ADDED: how its processes differ."""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Of its processes, beside that of this one."""


LEVERS = (
    Lever(SHIPPED),
    Lever("small batches leave at once", off=("small-batches",)),
    Lever("each commit through the loop", off=("short-commits",)),
    Lever("neither", off=("small-batches", "short-commits")),
    Lever(
        "gRPC with its event engine",
        environment=MappingProxyType({SETTING: "event_engine_client,event_engine_listener"}),
    ),
    Lever("without it in the client too", environment=MappingProxyType({SETTING: OFF})),
)


@dataclass(frozen=True, slots=True)
class Workload:
    """What is sent in a turn, with the defaults of the SDK."""

    name: str
    producers: int = 1
    rate: float = 0.0
    """Messages a second, each due at its moment; 0: the next when the last is answered."""
    together: int = 1
    """Messages in one call, of a closed loop."""
    callers: int = 1


WORKLOADS = (
    Workload("one in flight"),
    Workload("1,000/s", rate=1_000),
    Workload("5,000/s", rate=5_000),
    Workload("1,000/s from 50", producers=50, rate=1_000),
    Workload("calls of 100", together=100, callers=20),
)

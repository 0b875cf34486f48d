"""What ends by time ends soon after its time, as long as nothing goes wrong: leases, delays, times to live, requests.

How late is asked of runs without faults alone: with them nobody can say of each how long it may last.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from chaos.sim.draw.profiles import draw
from chaos.sim.judges.fates import Fates
from chaos.sim.judges.invariants import NUMBER, Name
from chaos.sim.pair.plan import Plan
from chaos.sim.tools.product import silence
from chaos.sim.world.world import World
from storage.records import split
from tandemq.peer.v1 import record_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LATE_MS_MAX = 300
SEEDS = range(1, 7)


class Watch(Fates):
    """Notes how long after its time each thing has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.late_ms: dict[str, list[int]] = {}
        self.ends_ms: dict[int, int] = {}
        """By lease."""

    def add(self, name: Name, header: pb.RecordHeader, body: bytes) -> None:
        for what, due_ms in self._due(name, header):
            self.late_ms.setdefault(what, []).append(header.time_ms - due_ms)
        super().add(name, header, body)

    def _due(self, name: Name, header: pb.RecordHeader) -> Iterator[tuple[str, int]]:
        if header.HasField("lease"):
            self.ends_ms[name.epoch << 40 | name.log_index] = header.lease.expires_at_ms
        for effect in header.settle.effects:
            if effect.expires_at_ms:
                self.ends_ms[effect.lease_id] = effect.expires_at_ms
        yield from (("lease", self.ends_ms[each]) for each in header.expire.lease_ids)
        yield from (("delay", copy.not_before_ms) for copy in self._of(header.expire.matured))
        yield from (("time to live", copy.expires_ms) for copy in self._of(header.expire.messages))
        for copy in self._of(header.expire.reply_timeouts):
            yield "request", copy.entered_ms + copy.shelf.config.reply_timeout.ToMilliseconds()

    def _of(self, parts: Iterable[pb.QueueRanges]) -> Iterator[Any]:
        for part in parts:
            yield from self._found(part.queue_id, part.ranges)


def late_ms(profile: str) -> dict[str, int]:
    """What ended by time in runs without faults, and how late it did at most."""
    found: dict[str, int] = {}
    for seed in SEEDS:
        for what, each in watched(draw(profile, seed)).late_ms.items():
            found[what] = max(found.get(what, 0), *each)
    return found


def watched(plan: Plan) -> Watch:
    """The log of a run with these clients, without faults and handoffs, which begin a lease anew, and without
    checkpoints, so that it goes back to the beginning.
    """
    clients = tuple(client for client in plan.clients if client.role != "admin")
    world = World(replace(plan, faults=(), clients=clients, settings={}))
    with silence():
        world.run()
    watch, log_index = Watch(), 1
    while (record := world.pair.members["a"].machine.disk.record(NUMBER, log_index)) is not None:
        prefix, header, body = split(record)
        watch.add(Name(prefix.epoch, log_index), pb.RecordHeader.FromString(bytes(header)), bytes(body))
        log_index += 1
    return watch


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "wanted"), [("letters", {"lease", "delay", "time to live"}), ("requests", {"lease", "request"})]
)
def test_what_ends_by_time_ends_in_time(profile: str, wanted: set[str]) -> None:
    found = late_ms(profile)
    assert wanted <= set(found)
    assert max(found.values()) <= LATE_MS_MAX, found


@pytest.mark.slow
def test_what_ends_late_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = import_module("replica.core.ordering.orders")
    original = module.plan_expire

    monkeypatch.setattr(
        module, "plan_expire", lambda state, now_ms: original(state, now_ms) if now_ms // 1000 % 2 else None
    )
    assert max(late_ms("letters").values()) > LATE_MS_MAX

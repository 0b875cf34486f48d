"""Judges proxies, and members of macro queues at another pair, while a run of two pairs lasts and at its end (M7, M11).

What clients did through them is in the books of the pair that has the queue, and judged there like what its own clients
do. Here is what only both pairs together show: who asks there, what becomes of heads, and whom a member holds up.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chaos.sim.judges import logs
from chaos.sim.judges.invariants import name_of_lease
from chaos.sim.judges.proxy_points import (
    FOUND_AGAIN,
    GAVE,
    PASSED,
    REOPENED,
    RETURNED,
    STRANGER,
    TAKEOVER_HERE,
    TAKEOVER_THERE,
)
from chaos.sim.kernel.wire import Packet
from replica.core.delivery.far_heads import AWAY, HEAD_MS, LATE
from replica.machine import lease_id_of
from replica.machine.plan.members import queues_of
from replica.services.passage import PROXIED
from tandemq.v1.queue_service_pb2 import OUTCOME_EXTEND, EnqueueResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from chaos.sim.judges.proxy_points import Elsewhere
    from chaos.sim.kernel.net import Pipe
    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.members import Pair
    from replica.core.domain import Domain
    from replica.machine.state.state import State
    from tandemq.v1.common_pb2 import IndexRange

    OnItem = Callable[[str, Pipe, object], None]

DEMOTED = "who is no master asks no other manager"
ONE = "a lease of heads is one consumer's"
LENGTHENED = "a head is leased to its consumer before it goes out"
KEPT = "a head that nobody took goes back"
HELD_UP = "a member elsewhere holds up no other"

LOOK_S = 0.05
GRACE_S = 0.3
"""A demoted master closes its connections at its next tick; what it has sent meanwhile nobody holds against it."""
HELD_UP_S = 1.0
"""A member that says nothing is passed over after 250 ms, once; then its ticks, and what is being committed."""
LATEST_S = 4.0
"""So long a call that was on its way may wait at the other pair, for somebody who has gone meanwhile."""


@dataclass(slots=True)
class _Seen:
    """One member of the first pair, as it was last looked at."""

    epoch: int = 0
    """In which it serves; 0: it does not."""
    until_s: float = -1.0
    """When it was last seen to serve."""
    heads: int = 0
    held_up_s: dict[int, float] = field(default_factory=dict)
    """Macro queue: since when somebody waits though a member here has something, and since when nothing was given."""
    given: dict[int, int] = field(default_factory=dict)


class ProxyWatch:
    """Looks at what is sent and arrives, and at the first pair's members again and again."""

    def __init__(self, near: Pair, far: Pair) -> None:
        self._near, self._far, self._run = near, far, near.run
        self._seen = {name: _Seen() for name in near.members}
        self._far_epoch = 0
        self._calm_s = float("inf")
        self._sure_from = 0
        """Log index of the other pair: heads that are leased behind it are held in peace."""

    def start(self) -> None:
        """Once the queues are made."""
        if self._run.proxied:
            self._look()

    # -- what travels --------------------------------------------------------------------------------------------------

    def on_arrived(self, pipe: Pipe, item: object) -> None:
        """A packet has arrived somewhere."""
        source, target = pipe.direction.source, pipe.direction.target
        if source not in self._far.members or target not in self._near.members:
            return
        is_answer = isinstance(item, Packet) and item.kind == "message" and item.path.endswith("/Enqueue")
        if is_answer and EnqueueResponse.FromString(item.data).duplicate:  # type: ignore[attr-defined]  # a packet
            self._run.sometimes(FOUND_AGAIN)

    def watching(self, after: OnItem | None) -> OnItem:
        """What is called with everything that travels; then `after`."""

        def on_item(what: str, pipe: Pipe, item: object) -> None:
            if what == "sent":
                self._on_sent(pipe, item)
            if after is not None:
                after(what, pipe, item)

        return on_item

    def _on_sent(self, pipe: Pipe, item: object) -> None:
        """A packet leaves; a call for a proxy says so."""
        source = self._near.members.get(pipe.direction.source)
        if source is None or not isinstance(item, Packet) or item.kind != "open":
            return
        if pipe.direction.target not in self._far.members or all(key != PROXIED for key, _ in item.metadata):
            return
        now_s, seen = self._run.loop.now, self._seen[source.name]
        if not source.is_serving and now_s - seen.until_s > GRACE_S:
            text = (
                f"{source.name} asks {pipe.direction.target} {item.path}, and was last master at {seen.until_s:.3f} s"
            )
            self._run.violation(DEMOTED, text)

    def on_event(self, kind: str, text: str) -> None:
        """A member has reported something."""
        if kind == "ROLE":
            seen = self._seen.get(text.partition(" ")[0])
            if seen is not None:
                seen.until_s = self._run.loop.now  # it may have served for less than a look
        elif "WRONG_PAIR" in text:
            self._run.sometimes(STRANGER)
        elif "reaches //" in text and text.endswith("again"):
            self._run.sometimes(REOPENED)

    # -- who waits -----------------------------------------------------------------------------------------------------

    def on_healed(self) -> None:
        """Nothing goes wrong any more."""
        self._calm_s = self._run.loop.now + LATEST_S

    def _look(self) -> None:
        loop = self._run.loop
        for member in self._near.members.values():
            self._look_at(member, self._seen[member.name])
        epoch = max((each.domain.shared.state.epoch for each in self._far.members.values() if each.domain), default=0)
        if epoch != self._far_epoch:
            if self._far_epoch and any(seen.heads for seen in self._seen.values()):
                self._run.sometimes(TAKEOVER_THERE)
            self._far_epoch = epoch
            self._disturbed()
        if loop.now < self._calm_s:
            indexes = (each.domain.shared.log.last_index for each in self._far.members.values() if each.domain)
            self._sure_from = max(indexes, default=0)
        loop.at(loop.now + LOOK_S, None, self._look)

    def _disturbed(self) -> None:
        """What is leased to a master that is none any more nobody gives back."""
        self._calm_s = max(self._calm_s, self._run.loop.now + LATEST_S)

    def _look_at(self, member: SimMember, seen: _Seen) -> None:
        domain = member.domain
        serves = domain is not None and member.is_serving and member.process is not None
        if domain is None or not serves or domain.shared.machine is None:
            if seen.epoch and seen.heads:
                self._run.sometimes(TAKEOVER_HERE)
            seen.epoch = seen.heads = 0
            seen.held_up_s.clear()
            return
        if domain.shared.state.epoch != seen.epoch:
            seen.epoch = domain.shared.state.epoch
            seen.held_up_s.clear()
            self._disturbed()
        seen.until_s = self._run.loop.now
        if member.process is not None and member.process.paused:
            seen.held_up_s.clear()
            return
        far = domain.consumers.fan_in.far
        seen.heads = sum(len(each.heads) for members in far.macros.values() for each in members.values())
        if far.totals["delivered"]:
            self._run.sometimes(GAVE)
        if far.totals["returned"]:
            self._run.sometimes(RETURNED)
        for macro_id, members in far.macros.items():
            if any(each.state in (LATE, AWAY) for each in members.values()) and far.credit(macro_id):
                self._run.sometimes(PASSED)
            self._look_at_line(domain, domain.shared.machine.state, macro_id, seen)

    def _look_at_line(self, domain: Domain, state: State, macro_id: int, seen: _Seen) -> None:
        """Whoever waits at a macro queue is given what its members here have."""
        now_s, macro = self._run.loop.now, state.macros.by_id.get(macro_id)
        if macro is None:
            return
        own = [each for each in queues_of(state, macro.members) if each.open_members]
        given = sum(each.totals.delivered for each in own)
        waits = domain.consumers.fan_in.far.credit(macro_id) and any(each.has_ready() for each in own)
        if not waits or not domain.mastership.commit.can_read or seen.given.get(macro_id) != given:
            seen.given[macro_id] = given
            seen.held_up_s.pop(macro_id, None)
            return
        since_s = seen.held_up_s.setdefault(macro_id, now_s)
        if now_s - since_s > HELD_UP_S:
            states = [f"{each.name} {each.state}" for each in domain.consumers.fan_in.far.macros[macro_id].values()]
            self._run.violation(HELD_UP, f"{macro.name} gives nothing since {since_s:.3f} s: {states}")
            seen.held_up_s[macro_id] = float("inf")

    # -- at the end ----------------------------------------------------------------------------------------------------

    def broken(self, found: Elsewhere) -> Iterator[tuple[str, str]]:
        """What does not hold; of each rule the first finding."""
        holders: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)
        for each in found.given:
            holders[each.lease_id].add((each.consumer, each.call))
        for lease_id, who in holders.items():
            if len(who) > 1:
                yield ONE, f"lease {lease_id} of the other pair is that of {sorted(who)}"
                break
        stored = self._log()
        if stored is None:
            return
        lasted = _lasted(stored)
        for each in found.given:
            if missing := [
                index for index in each.indexes if each.asked_ms not in lasted.get((each.lease_id, index), [])
            ]:
                yield LENGTHENED, f"{each.consumer} was given {missing} under {each.lease_id} for {each.asked_ms} ms"
                break
        for record in stored:
            for lease_id in record.header.expire.lease_ids:
                times = [lasts for (lease, _), lasts in lasted.items() if lease == lease_id]
                is_head = all(lasts[-1] == HEAD_MS for lasts in times)
                if is_head and name_of_lease(lease_id).log_index > self._sure_from:
                    yield KEPT, f"the lease {lease_id} of a head has ended by time, at {record.name}"
                    return

    def _log(self) -> list[logs.Stored] | None:
        for member in self._far.members.values():
            if member.is_serving:
                return logs.read(member.machine.disk, self._far.members[member.peer].machine.disk)
        return None


def _lasted(stored: Iterable[logs.Stored]) -> dict[tuple[int, int], list[int]]:
    """Milliseconds that a lease was to last, by its id and index: when it was made, and by each extension."""
    found: dict[tuple[int, int], list[int]] = {}
    for name, header, _ in stored:
        if header.HasField("lease"):
            for index in _indexes(header.lease.ranges):
                found[lease_id_of(name.epoch, name.log_index), index] = [header.lease.duration_ms]
        for effect in header.settle.effects:
            for index in _indexes(effect.ranges) if effect.outcome == OUTCOME_EXTEND else ():
                found[effect.lease_id, index].append(effect.duration_ms)
    return found


def _indexes(ranges: Iterable[IndexRange]) -> Iterator[int]:
    for part in ranges:
        yield from range(part.first, part.first + part.count)

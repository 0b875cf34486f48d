"""A member names what it does by the number of its start: what the witness has counted, whatever its disk said."""

from __future__ import annotations

import asyncio

import pytest

from chaos.sim.kernel.environment import SimPorts
from chaos.sim.pair.member import SimMember
from chaos.sim.pair.plan import Call, ClientPlan, Fault, Plan
from chaos.sim.tools.product import silence
from chaos.sim.world.world import World
from replica.listen.ports import Served
from replica.peer.identity import incarnation
from replica.peer.identity.starts import Start


@pytest.mark.parametrize("lost", ["a", "b"])
def test_after_its_disk_was_lost_a_member_names_nothing_as_before(lost: str) -> None:
    """Else nonces and handoffs of two starts are one, for the empty disk counts from 1 again."""
    faults = (
        Fault(300, "crash", lost, {"down_ms": 10, "power": False}),
        Fault(1500, "lost_disk", lost, {"down_ms": 50}),
    )
    world = World(Plan(1, "given", faults=faults))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert outcome.counters["fault.lost_disk"] == 1
    starts = {name: world.pair.run.registers.get(f"start/{name}").epoch for name in world.pair.members}
    assert starts[lost] == 3
    assert {
        name: member.domain.shared.incarnation for name, member in world.pair.members.items() if member.domain
    } == starts


@pytest.mark.parametrize("lost", ["a", "b"])
@pytest.mark.parametrize("away_ms", [0, 1000])
def test_the_peer_remembers_a_start_that_the_register_has_forgotten(lost: str, away_ms: int) -> None:
    """Else a disk that is lost later counts from 1, the register agrees, and two processes have one number: the peer
    takes b, which calls, for a copy for ever, and a, which is called, for the process that was there before.

    The register is there as the member comes back, or comes later.
    """
    away = (Fault(1800, "register_down", "register", {"for_ms": away_ms, "silent": False}),) if away_ms else ()
    faults = (
        Fault(300, "register_lost", "register", {"for_ms": 10}),
        *away,
        Fault(2000, "lost_disk", lost, {"down_ms": 50}),
    )
    world = World(Plan(1, "given", faults=faults))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert outcome.counters["fault.lost_disk"] == 1
    domain = world.pair.members[lost].domain
    assert domain is not None
    assert domain.shared.incarnation == world.pair.run.registers.get(f"start/{lost}").epoch == 2


def test_a_member_takes_no_call_before_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its peer port is open before the others. Filled by then, it would begin to wait, and be told nothing any more."""
    opens = SimPorts.open

    async def slowly(ports: SimPorts, served: Served) -> None:
        await opens(ports, served)
        loop = asyncio.get_running_loop()
        opened = loop.create_future()
        loop.call_at(loop.time() + 3, opened.set_result, None)  # virtual
        await opened

    monkeypatch.setattr(SimPorts, "open", slowly)
    faults = (
        Fault(5000, "register_lost", "register", {"for_ms": 10}),
        Fault(6500, "lost_disk", "a", {"down_ms": 50}),
    )
    world = World(Plan(1, "given", faults=faults, safety_ms=10_000))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert outcome.counters["fault.lost_disk"] == 1
    assert world.pair.run.registers.get("start/a").epoch == 2


def test_who_is_called_is_filled_while_the_register_is_away() -> None:
    """It has no vote, and the number that it had before; without it the master could commit nothing."""
    faults = (
        Fault(300, "crash", "a", {"down_ms": 200, "power": False}),
        Fault(2500, "register_down", "register", {"for_ms": 4000, "silent": False}),
        Fault(3000, "lost_disk", "a", {"down_ms": 50}),
    )
    world = World(Plan(1, "given", faults=faults, safety_ms=7_000))
    seen: list[tuple[bool, bool, bool]] = []

    def look() -> None:
        a, b = (world.pair.members[name].domain for name in "ab")
        assert a is not None
        assert b is not None
        seen.append((a.mastership.claims.may_claim, a.target.opened, b.mastership.commit.can_commit))

    world.loop.at(6.0, None, look)
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert outcome.counters["fault.lost_disk"] == 1
    assert seen == [(False, True, True)]
    assert world.pair.run.registers.get("start/a").epoch == 3


@pytest.mark.parametrize(("lost", "other"), ["ab", "ba"])
def test_the_peer_remembers_the_number_that_was_given_to_a_member_while_it_was_connected(lost: str, other: str) -> None:
    """It began as 1 at a peer that knew nothing of it, and was counted as 2; the register forgets that later."""
    faults = (
        Fault(1500, "register_away", lost, {"for_ms": 2000, "how": "both"}),
        Fault(1600, "lost_disk", lost, {"down_ms": 50}),
        Fault(1600, "crash", other, {"down_ms": 20, "power": False}),
        Fault(4500, "register_lost", "register", {"for_ms": 10}),
        Fault(5500, "lost_disk", lost, {"down_ms": 50}),
    )
    world = World(Plan(1, "given", faults=faults, safety_ms=7_000))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert outcome.counters["fault.register_lost"] == 1
    assert outcome.counters["fault.lost_disk"] == 2
    domain = world.pair.members[lost].domain
    assert domain is not None
    assert domain.shared.incarnation == world.pair.run.registers.get(f"start/{lost}").epoch == 3


def test_the_peer_forgets_no_higher_start_over_one_that_is_not_counted_yet() -> None:
    """a, which is called, connects as 1 where 3 was known, and ends before anybody has counted it."""
    faults = (
        Fault(300, "crash", "a", {"down_ms": 10, "power": False}),
        Fault(1200, "crash", "a", {"down_ms": 10, "power": False}),
        Fault(2000, "register_lost", "register", {"for_ms": 10}),
        Fault(2500, "register_away", "a", {"for_ms": 4500, "how": "both"}),
        Fault(2600, "lost_disk", "a", {"down_ms": 50}),
        Fault(5500, "crash", "a", {"down_ms": 10, "power": False}),
    )
    world = World(Plan(1, "given", faults=faults, safety_ms=8_000))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert outcome.counters["fault.crash"] == 3
    domain = world.pair.members["a"].domain
    assert domain is not None
    assert domain.shared.incarnation == world.pair.run.registers.get("start/a").epoch == 4


@pytest.mark.parametrize("forgets", ["peer", "register"])
@pytest.mark.parametrize("put_back", ["a", "b"])
def test_starts_that_nobody_has_counted_do_not_make_an_older_copy_a_current_one(
    put_back: str, forgets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run its number up beyond the one that the original's last process had (0032). Where the register has lost
    its count it is the peer that knows better.
    """
    marked: list[str] = []
    give_way = incarnation.Own.give_way

    async def marks(own: incarnation.Own, seen: Start, by: str) -> None:
        if own.starts.is_others(seen):
            marked.append(by)
        await give_way(own, seen, by)

    monkeypatch.setattr(incarnation.Own, "give_way", marks)
    monkeypatch.setattr(SimMember, "forget_image", lambda _self: None)  # the peer's process lives, and can tell
    peer = "b" if put_back == "a" else "a"
    forgotten = (
        (Fault(3105, "crash", peer, {"down_ms": 10, "power": False}),)
        if forgets == "peer"
        # It hears of the last process alone.
        else (Fault(600, "register_lost", "register", {"for_ms": 10}), Fault(3095, "cut", "b>a", {"for_ms": 75}))
    )
    faults = (
        Fault(100, "old_image", put_back, {"down_ms": 0, "ends": 0, "end_ms": 0}),
        Fault(300, "crash", put_back, {"down_ms": 10, "power": False}),
        Fault(3000, "register_away", put_back, {"for_ms": 1500, "how": "both"}),
        Fault(3100, "old_image", put_back, {"down_ms": 10, "ends": 2, "end_ms": 30}),
        *forgotten,
    )
    world = World(Plan(1, "given", faults=tuple(sorted(faults, key=lambda each: each.at_ms)), safety_ms=6_000))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert outcome.counters["fault.old_image"] == 1
    assert marked == ["the peer" if forgets == "register" else "the witness"]
    domain = world.pair.members[put_back].domain
    assert domain is not None
    assert domain.shared.incarnation == world.pair.run.registers.get(f"start/{put_back}").epoch > 2


def test_a_start_that_was_counted_does_not_hide_those_before_it_from_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The original's start 2 was never counted: the witness knows nothing of it, and counts a process on the image. The
    peer was connected with it, and says so; before that is heard the copy must not count as current for good.
    """
    monkeypatch.setattr(SimMember, "forget_image", lambda _self: None)
    sends = tuple(Call(at_ms, "send", {"count": 1}) for at_ms in (0, 1200, 1600, 2000))
    clients = (ClientPlan("producer0", "producer", sends, {"first": "a", "follow": True, "number": 0, "queue": "q"}),)
    faults = (
        Fault(100, "old_image", "b", {"down_ms": 0, "ends": 0, "end_ms": 0}),
        Fault(250, "register_away", "b", {"for_ms": 2845, "how": "both"}),
        Fault(300, "crash", "b", {"down_ms": 10, "power": False}),
        Fault(3090, "register_away", "a", {"for_ms": 1500, "how": "both"}),
        Fault(3099, "cut", "a>b", {"for_ms": 75}),
        Fault(3099, "cut", "b>a", {"for_ms": 75}),
        Fault(3100, "old_image", "b", {"down_ms": 10, "ends": 2, "end_ms": 2}),
        Fault(3700, "crash", "a", {"down_ms": 3000, "power": False}),
    )
    world = World(Plan(1, "given", faults=faults, clients=clients, safety_ms=9_000))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert outcome.counters["fault.old_image"] == 1


@pytest.mark.parametrize("cut_ms", [5350, 5900])
def test_who_is_filled_before_it_is_counted_is_known_by_its_number(
    monkeypatch: pytest.MonkeyPatch, cut_ms: int
) -> None:
    """1. a, which is called, has an empty disk and no way to the witness. 2. It is told of the start on the lost disk,
    counts on from it, and is filled. 3. The old directory is put back: its own start is the last one that the witness
    knows, and was the last one that its peer knew, too.
    """
    monkeypatch.setattr(SimMember, "forget_image", lambda _self: None)
    sends = tuple(Call(at_ms, "send", {"count": 1}) for at_ms in range(0, 4800, 200))
    clients = (ClientPlan("producer0", "producer", sends, {"first": "b", "follow": True, "number": 0, "queue": "q"}),)
    faults = (
        Fault(1000, "old_image", "a", {"down_ms": 0, "ends": 0, "end_ms": 0}),
        Fault(2000, "register_away", "a", {"for_ms": 2950, "how": "both"}),
        Fault(2100, "lost_disk", "a", {"down_ms": 50}),
        Fault(4990, "register_away", "b", {"for_ms": 9000, "how": "both"}),
        Fault(5000, "old_image", "a", {"down_ms": 10, "ends": 0, "end_ms": 0}),
        Fault(cut_ms, "cut", "a>b", {"for_ms": 5000}),
        Fault(cut_ms, "cut", "b>a", {"for_ms": 5000}),
    )
    world = World(Plan(1, "given", faults=faults, clients=clients, safety_ms=12_000))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert (outcome.counters["fault.lost_disk"], outcome.counters["fault.old_image"]) == (1, 1)

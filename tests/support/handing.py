"""Handoffs step by step, and what can go wrong right after any step: scenarios, one for each way through the table.

A scenario is a generator: each `next` does one small thing (a frame arrives, a batch is written, a register call is
answered). Whoever drives it may stop anywhere, hurt the pair, and let it heal. A is master at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from failover.handoff import HandoffState
from failover.marks import DataMark
from failover.register import claim
from replica.core.handoff.attempt import HandoffOutcome
from tandemq.peer.v1.peer_service_pb2 import HandoffPropose, HandoffRequest, PeerFrame
from tests.support.checks import require
from tests.support.clients import Producer
from tests.support.pair import NAME, NUMBER, Member
from tests.support.stories import ends_well, paired

Steps = Iterator[None]
ALL_CALLS = ("",)


class Run:
    """One pair on its way through one scenario."""

    def __init__(self) -> None:
        self.pair, self.x = paired()
        self.y = Producer(self.pair, "y")
        self.a, self.b = self.pair.a, self.pair.b
        self.told: list[tuple[Member, int, list[HandoffOutcome]]] = []
        self.pair.handoff_rows.clear()

    def load(self) -> None:
        """Something is under way at both members."""
        self.x.send(self.a)
        self.y.send(self.b)

    def hand_over(self, member: Member, *, dry_run: bool = False) -> list[HandoffOutcome]:
        told = member.hand_over(dry_run=dry_run)
        self.told.append((member, member.incarnation, told))
        return told

    def abort(self, member: Member) -> None:
        member.core.handoff.abort("TIMEOUT")
        member.dispatch(member.core)

    def inject(self, member: Member, **frame: object) -> None:
        """A frame that no peer of ours would send now."""
        member.take_frame(PeerFrame(domain=NUMBER, epoch=member.shared.state.epoch, **frame))  # type: ignore[arg-type]

    def state(self, member: Member) -> HandoffState:
        return member.core.handoff.state

    # -- small steps -----------------------------------------------------------------------------------------------

    def one(self, *, senders: str = "ab", disks: str = "ab", keep: tuple[str, ...] = ()) -> bool:
        """See `Pair.one`."""
        return self.pair.one(senders=senders, disks=disks, keep=keep)

    def flow(self, *, senders: str = "ab", disks: str = "ab", keep: tuple[str, ...] = ()) -> Steps:
        while self.one(senders=senders, disks=disks, keep=keep):
            yield

    def until(self, member: Member, state: HandoffState, **only: object) -> Steps:
        while self.state(member) is not state:
            assert self.one(**only), f"{member.name} never gets to {state.name}: {self.pair.describe()}"  # type: ignore[arg-type]
            yield

    def wait(self, milliseconds: int) -> Steps:
        self.pair.tick(milliseconds)
        yield

    # -- the end ---------------------------------------------------------------------------------------------------

    def ends_well(self) -> None:
        """One master, nothing acknowledged lost, no number with two owners (the checks see to that), nobody waits."""
        pair = self.pair
        ends_well(pair, self.x, self.y)
        pair.settle(4000)
        for member in (pair.a, pair.b):
            require(self.state(member).is_steady, f"{member.name} is still {self.state(member).name}")
            require(not member.shared.draining, f"{member.name} still drains")
            require(not len(member.core.holding), f"{member.name} still holds calls")
        for member, incarnation, told in self.told:
            require(len(told) <= 1, f"{member.name} was told twice: {told}")
            require(told or member.incarnation != incarnation, f"{member.name} was never told how its handoff ended")


# -- the ways through the table ----------------------------------------------------------------------------------------


def master_hands_over(run: Run) -> Steps:
    run.load()
    run.hand_over(run.a)
    yield from run.flow()


def replica_asks(run: Run) -> Steps:
    run.load()
    run.hand_over(run.b)
    yield from run.flow()


def disks_are_slow(run: Run) -> Steps:
    """The members write one after the other, and the register answers last."""
    run.load()
    run.hand_over(run.a)
    for _ in range(8):
        yield from run.flow(disks="b", keep=ALL_CALLS)
        yield from run.flow(disks="a", keep=ALL_CALLS)
    yield from run.flow()


def replica_is_refused(run: Run) -> Steps:
    run.a.core.handoff.bars.add("PINNED")
    run.hand_over(run.a)
    run.hand_over(run.b)
    yield from run.flow()
    run.a.core.handoff.bars.clear()


def proposal_is_refused(run: Run) -> Steps:
    run.b.core.handoff.bars.add("MAINTENANCE")
    run.hand_over(run.b)
    run.hand_over(run.a)
    yield from run.flow()
    run.b.core.handoff.bars.clear()


def barred_since_it_asked(run: Run) -> Steps:
    run.hand_over(run.b)
    run.b.core.handoff.bars.add("MAINTENANCE")
    yield from run.flow()
    run.b.core.handoff.bars.clear()


def both_at_once(run: Run) -> Steps:
    run.load()
    run.hand_over(run.a)
    run.hand_over(run.b)
    yield from run.flow()


def dry_runs(run: Run) -> Steps:
    run.hand_over(run.a, dry_run=True)
    yield from run.flow()
    run.hand_over(run.b, dry_run=True)
    yield from run.flow()


def second_callers(run: Run) -> Steps:
    """In every state both members are asked again, by callers and by frames of another handoff."""
    run.load()
    run.hand_over(run.b)
    asked: set[tuple[str, HandoffState]] = set()
    while True:
        for member in (run.a, run.b):
            state = run.state(member)
            if (member.name, state) in asked:
                continue
            asked.add((member.name, state))
            if not state.is_steady:
                run.hand_over(member)
            if state is not HandoffState.MASTER:
                run.inject(member, handoff_request=HandoffRequest(id=b"?" * 16))
        yield
        if not run.one():
            return


def newer_offer(run: Run) -> Steps:
    run.hand_over(run.a)
    yield from run.until(run.b, HandoffState.READY)
    run.inject(run.b, handoff_propose=HandoffPropose(id=b"?" * 16, deadline_ms=500))
    yield from run.flow()


def no_answer_to_the_offer(run: Run) -> Steps:
    run.hand_over(run.a)
    yield
    yield from run.wait(1100)
    yield from run.flow()


def request_falls_on_the_floor(run: Run) -> Steps:
    run.hand_over(run.b)
    yield
    yield from run.wait(1100)
    yield from run.flow()


def drain_takes_too_long(run: Run) -> Steps:
    run.load()
    run.hand_over(run.a)
    yield from run.flow(disks="a")
    yield from run.wait(2100)
    yield from run.flow()


def replica_waits_too_long(run: Run) -> Steps:
    """It is READY, hears nothing, gives up; the ACK that comes then is refused."""
    run.hand_over(run.a)
    yield from run.until(run.b, HandoffState.READY)
    yield from run.flow(senders="b")
    yield from run.wait(1000)
    yield from run.wait(2100)
    yield from run.flow()


def replica_gives_up(run: Run) -> Steps:
    """Its NACK crosses the ACK."""
    run.hand_over(run.a)
    yield from run.until(run.b, HandoffState.READY)
    yield from run.until(run.a, HandoffState.CEDING, senders="b")
    yield from run.flow(senders="")
    run.abort(run.b)
    yield from run.flow()


def replica_takes_ready_back(run: Run) -> Steps:
    run.load()
    run.hand_over(run.a)
    yield from run.until(run.a, HandoffState.DRAINING, disks="")
    run.abort(run.b)
    yield from run.flow()


def offer_is_taken_back(run: Run) -> Steps:
    run.hand_over(run.a)
    yield
    run.abort(run.a)
    yield from run.flow()


def drain_is_taken_back(run: Run) -> Steps:
    run.load()
    run.hand_over(run.a)
    yield from run.until(run.a, HandoffState.DRAINING, disks="")
    run.abort(run.a)
    yield from run.flow()


def request_is_taken_back(run: Run) -> Steps:
    run.hand_over(run.b)
    yield
    run.abort(run.b)
    yield from run.flow()


def copy_is_not_whole(run: Run) -> Steps:
    run.hand_over(run.a)
    yield from run.until(run.a, HandoffState.CEDING)
    run.b.shared.state.data = DataMark.STALE
    yield from run.flow(keep=ALL_CALLS)
    run.b.shared.state.data = DataMark.IN_SYNC
    yield from run.flow()


def register_has_moved(run: Run) -> Steps:
    """Another claim lands between the replica's read and its own."""
    run.hand_over(run.a)
    yield from run.until(run.b, HandoffState.TAKING)
    yield from run.flow(keep=("claim",))
    register = run.pair.register
    other = claim(register, member="a", epoch=register.epoch + 5, members=frozenset("ab"), nonce=b"other")
    run.pair.registers.set(NAME, register, other)
    yield from run.flow()


def register_hangs(run: Run) -> Steps:
    run.hand_over(run.a)
    yield from run.until(run.b, HandoffState.TAKING, keep=ALL_CALLS)
    yield from run.flow(keep=ALL_CALLS)
    yield from run.wait(3100)
    yield from run.flow()


def old_master_is_faster(run: Run) -> Steps:
    """The new one's read of the register hangs; the old one has given up waiting, and claims."""
    run.hand_over(run.a)
    yield from run.until(run.a, HandoffState.CEDING)
    yield from run.flow(senders="b", keep=ALL_CALLS)
    yield from run.wait(500)
    yield from run.until(run.b, HandoffState.TAKING, keep=ALL_CALLS)
    yield from run.wait(2600)
    for _ in range(40):
        for call in [call for call in run.pair.calls if call.member == "a"]:
            run.pair.answer(call)
        if not run.one(keep=ALL_CALLS):
            break
        yield
    yield from run.flow()


def register_is_away(run: Run) -> Steps:
    """P18: nobody can read it or set it until the end."""
    run.load()
    run.hand_over(run.a)
    for _ in range(60):
        if not run.one(keep=ALL_CALLS):
            for call in list(run.pair.calls):
                run.pair.lose(call)
            run.pair.tick(20)
        yield


def lose_role(
    member_of: Callable[[Run], Member], watched_of: Callable[[Run], Member], state: HandoffState
) -> Callable[[Run], Steps]:
    """The first member steps down by another way when the second one has reached that state."""

    def scenario(run: Run) -> Steps:
        run.load()
        run.hand_over(run.b)
        yield from run.until(watched_of(run), state, disks="")
        member = member_of(run)
        member.core.mastership.role.become_probe("steps down by another way")
        member.dispatch(member.core)
        yield from run.flow()

    scenario.__name__ = f"role_is_lost_while_{state.name.lower()}"
    return scenario


def lose_link(watched_of: Callable[[Run], Member], state: HandoffState) -> Callable[[Run], Steps]:
    def scenario(run: Run) -> Steps:
        run.load()
        run.hand_over(run.b)
        only = {"disks": ""} if state is not HandoffState.CEDING else {}
        yield from run.until(watched_of(run), state, **only)
        run.pair.disconnect()
        yield from run.flow()

    scenario.__name__ = f"link_is_lost_while_{state.name.lower()}"
    return scenario


def _a(run: Run) -> Member:
    return run.a


def _b(run: Run) -> Member:
    return run.b


def ceding_role_lost(run: Run) -> Steps:
    run.hand_over(run.a)
    yield from run.until(run.a, HandoffState.CEDING)
    run.a.core.mastership.role.become_probe("steps down by another way")
    run.a.dispatch(run.a.core)
    yield from run.flow()


SCENARIOS: tuple[Callable[[Run], Steps], ...] = (
    master_hands_over,
    replica_asks,
    disks_are_slow,
    replica_is_refused,
    proposal_is_refused,
    barred_since_it_asked,
    both_at_once,
    dry_runs,
    second_callers,
    newer_offer,
    no_answer_to_the_offer,
    request_falls_on_the_floor,
    drain_takes_too_long,
    replica_waits_too_long,
    replica_gives_up,
    replica_takes_ready_back,
    offer_is_taken_back,
    drain_is_taken_back,
    request_is_taken_back,
    copy_is_not_whole,
    register_has_moved,
    register_hangs,
    old_master_is_faster,
    register_is_away,
    lose_role(_a, _a, HandoffState.PROPOSED),
    lose_role(_a, _a, HandoffState.DRAINING),
    lose_role(_a, _b, HandoffState.REQUESTED),
    lose_role(_a, _b, HandoffState.READY),
    ceding_role_lost,
    lose_link(_a, HandoffState.PROPOSED),
    lose_link(_a, HandoffState.DRAINING),
    lose_link(_a, HandoffState.CEDING),
    lose_link(_b, HandoffState.REQUESTED),
    lose_link(_b, HandoffState.READY),
)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def _crash(run: Run, member: Member, *, written: bool = False) -> None:
    run.pair.crash(member, written=written)


def _crash_both(run: Run) -> None:
    for member in run.pair.up:
        run.pair.crash(member)


def _alone(run: Run, member: Member) -> None:
    """One process ends, and the other one goes on as far as it may, with a client at it."""
    run.pair.crash(member)
    member.peer.lost(refused=True)
    run.pair.settle(1500)
    run.x.retry(member.peer)
    run.pair.settle(300)


def _half_cut(run: Run, member: Member) -> None:
    """One side notices first; what was sent to the other one still arrives."""
    run.pair.cut()
    member.notice()
    for _ in run.flow(senders=member.name):
        pass
    member.peer.notice()


def _lose_answers(run: Run, *, for_ms: int = 0) -> None:
    for _ in range(1 + for_ms // 100):
        for call in list(run.pair.calls):
            run.pair.lose(call)
        if for_ms:
            run.pair.quiesce(keep=ALL_CALLS)
            run.pair.tick(100)


FAULTS: dict[str, Callable[[Run], None]] = {
    "a crashes": lambda run: _crash(run, run.a),
    "b crashes": lambda run: _crash(run, run.b),
    "a crashes after its write": lambda run: _crash(run, run.a, written=True),
    "b crashes after its write": lambda run: _crash(run, run.b, written=True),
    "both crash": _crash_both,
    "a crashes, b goes on": lambda run: _alone(run, run.a),
    "b crashes, a goes on": lambda run: _alone(run, run.b),
    "the link is cut": lambda run: run.pair.disconnect(),
    "the link is cut, a notices first": lambda run: _half_cut(run, run.a),
    "the link is cut, b notices first": lambda run: _half_cut(run, run.b),
    "the register's answers are lost": _lose_answers,
    "the register is away for a second": lambda run: _lose_answers(run, for_ms=1000),
}

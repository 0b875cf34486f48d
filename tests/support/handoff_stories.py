"""The stories of a handoff in which a pair without one of its rules loses, doubles or waits for ever (P8, P15-P19).

On the product every story ends well; `tests/test_handoff_rules.py` tells each again with the rule taken out.
"""

from __future__ import annotations

from failover.handoff import State
from replica.attempt import Outcome
from tests.support.checks import require
from tests.support.handing import ALL_CALLS, Run


def _go(run: Run, **only: object) -> None:
    for _ in run.flow(**only):  # type: ignore[arg-type]
        pass


def _until_ack_is_under_way(run: Run) -> None:
    """A has ceded, durably, and its ACK is on the wire."""
    for _ in run.until(run.a, State.CEDING):
        pass
    while run.a.writing is not None or not run.a.group.empty:
        run.a.commit()
    run.a.pump()


def _register_away(run: Run, milliseconds: int, *, only: str = "ab") -> None:
    """Nobody of `only` can ask the register for that long."""
    end_ms = run.pair.now_ms + milliseconds
    while run.pair.now_ms < end_ms:
        for call in [call for call in run.pair.calls if call.member in only]:
            run.pair.lose(call)
        run.pair.quiesce(keep=ALL_CALLS)
        run.pair.tick(20)


def one_sentence(told: list[Outcome]) -> str:
    return "; ".join("done" if each.done else ",".join(each.reasons) for each in told) or "nothing"


def same_number_by_handoff() -> None:
    """A cedes epoch 2; the link resets with the ACK under way. A goes on alone; then the witness goes away for B, which
    reads the late ACK and takes what was ceded.
    """
    run = Run()
    run.hand_over(run.a)
    _until_ack_is_under_way(run)
    run.pair.cut()
    run.a.notice()
    run.a.lost(refused=True)
    for _ in range(200):
        for call in [call for call in run.pair.calls if call.member == "a"]:
            run.pair.answer(call)
        run.pair.tick(10)
        run.a.commit()
    require(run.a.serving, "A may go on alone: the register lets it")
    _go(run, senders="a", keep=ALL_CALLS)
    _register_away(run, 200, only="b")
    run.ends_well()


def acknowledged_too_early() -> None:
    """The ACK must not leave before the promise is on the disk: A crashes, forgets it, and claims the same number."""
    run = Run()
    run.hand_over(run.a)
    for _ in run.until(run.a, State.CEDING):
        pass
    run.a.pump()  # whatever it says before its disk has written
    late = list(run.pair.wires["a"])
    run.a.crash()
    run.pair.linked = False
    run.pair.greeted.discard("a")
    run.a.start()
    run.a.lost(refused=True)
    for _ in range(200):
        for call in [call for call in run.pair.calls if call.member == "a"]:
            run.pair.answer(call)
        run.pair.tick(10)
        run.a.commit()
    require(run.a.serving, "A may go on alone: the register lets it")
    for frame in late:
        run.b.take_frame(frame)
    _register_away(run, 200, only="b")
    run.ends_well()


def in_doubt() -> None:
    """The ACK is lost with the link, and nobody ever takes what was ceded: A asks register and peer, and goes on."""
    run = Run()
    run.load()
    told = run.hand_over(run.a)
    _until_ack_is_under_way(run)
    run.pair.disconnect()
    run.ends_well()
    require(one_sentence(told) == "IN_DOUBT", f"its caller heard {one_sentence(told)}")


def done_is_the_sync() -> None:
    """No frame says DONE; the SYNC does, and without it the old master would not know."""
    run = Run()
    told = run.hand_over(run.a)
    _go(run)
    require(one_sentence(told) == "done", f"its caller heard {one_sentence(told)}")
    require(run.pair.master is run.b, "B is master")
    run.ends_well()


def witness_is_away() -> None:
    """P18: both agree, so it is done; nothing is acknowledged that A does not hold; recorded when the witness is back,
    and the role stays where it is.
    """
    run = Run()
    run.load()
    told = run.hand_over(run.a)
    _register_away(run, 500)
    require(one_sentence(told) == "done", f"its caller heard {one_sentence(told)}")
    require(run.b.serving and run.b.core.replication.unrecorded, "B serves, unrecorded")
    op = run.x.send(run.b)
    _register_away(run, 100)
    require(op.done is not None and op.done.copies == 2, "both hold it")
    run.pair.settle(2500)
    require(run.pair.register.holder == "b", "the register does not say that B is master")
    run.ends_well()
    require(run.pair.master is run.b, "the role went back")


def unrecorded_and_cut_off() -> None:
    """As above, and the link goes before A follows: B may acknowledge nothing, for A may claim at any time."""
    run = Run()
    run.hand_over(run.a)
    for _ in run.until(run.b, State.TAKING, keep=ALL_CALLS):
        pass
    run.pair.disconnect()
    _register_away(run, 100, only="b")
    require(run.b.serving, "B serves, unrecorded")
    op = run.x.send(run.b)
    _register_away(run, 100, only="b")
    require(op.done is None, f"{op.done} is answered, and A does not hold it")
    run.a.lost(refused=False)
    for _ in range(100):
        for call in [call for call in run.pair.calls if call.member == "a"]:
            run.pair.answer(call)
        run.pair.tick(20)
        run.a.commit()
    run.ends_well()


def crossing() -> None:
    """R135: both start at once; the replica's fails, the master's goes on."""
    run = Run()
    master_told, replica_told = run.hand_over(run.a), run.hand_over(run.b)
    _go(run)
    require(one_sentence(master_told) == "done", f"the master's caller heard {one_sentence(master_told)}")
    require(one_sentence(replica_told) == "COLLISION", f"the replica's caller heard {one_sentence(replica_told)}")
    run.ends_well()


def taken_back() -> None:
    """P19: until the ceded write an abort is free, and what was parked is ordered in the old epoch."""
    run = Run()
    run.load()
    run.hand_over(run.a)
    for _ in run.until(run.a, State.DRAINING, disks=""):
        pass
    parked, held = run.x.send(run.a), run.y.send(run.b)
    run.abort(run.a)
    _go(run)
    require(parked.done and held.done, "a call that was parked is not answered")
    require(run.a.shared.state.epoch == 1, "the old epoch goes on")
    run.ends_well()


def both_wait() -> None:
    """P8: B claims what was ceded and crashes before it has stored it. A waits for the one whom the register names; B
    comes back and must not wait for A because of A's promise.
    """
    run = Run()
    run.hand_over(run.a)
    for _ in run.until(run.b, State.TAKING):
        pass
    _go(run, keep=("claiming",))
    run.pair.land(run.pair.call(run.b, "claiming"))
    run.pair.crash(run.b)
    run.b.start()
    run.ends_well()


def duel_after_a_handoff() -> None:
    """P8: A cedes and crashes; both claim, each with a HELLO from before the other one became master."""
    run = Run()
    run.hand_over(run.a)
    _until_ack_is_under_way(run)
    run.pair.deliver(run.a)
    run.pair.crash(run.a)
    run.a.start()
    run.pair.connect()
    run.ends_well()
    require(run.pair.register.epoch <= 5, f"the epochs run up to {run.pair.register.epoch}")


def parked_calls_go_on() -> None:
    """What came during the drain, at either member, is answered by the new master, once."""
    run = Run()
    run.load()
    run.hand_over(run.a)
    for _ in run.until(run.a, State.DRAINING, disks=""):
        pass
    ops = [run.x.send(run.a), run.y.send(run.b), run.x.send(run.a)]
    _go(run)
    require(run.pair.master is run.b, "B is master")
    run.pair.settle(300)
    require(all(op.done is not None for op in ops), "a call that was parked is not answered")
    require(all(op.done is not None and op.done.epoch == 2 for op in ops), "ordered in the old epoch after the drain")
    run.ends_well()


def two_copies_from_the_first_message_on() -> None:
    """The new epoch began with both members in its set: what the old master answers is on both, also before it has
    written that its copy was verified.
    """
    run = Run()
    run.load()
    run.hand_over(run.a)
    for _ in run.until(run.a, State.DRAINING, disks=""):
        pass
    op = run.x.send(run.a)
    for _ in range(500):
        verified = any(isinstance(token, tuple) and token[0] == "opened" for _, token in run.a.group.tokens)
        if not run.one(disks="b" if verified else "ab"):
            break
    require(not run.a.core.target.opened, "the mark of A is still to be written")
    require(op.done is not None, "the master's commit is all that an answer waits for")
    require(op.done is not None and op.done.copies == 2, f"both hold it, and the answer is {op.done}")
    run.ends_well()


ALL = (
    same_number_by_handoff,
    acknowledged_too_early,
    in_doubt,
    done_is_the_sync,
    witness_is_away,
    unrecorded_and_cut_off,
    crossing,
    taken_back,
    both_wait,
    duel_after_a_handoff,
    parked_calls_go_on,
    two_copies_from_the_first_message_on,
)

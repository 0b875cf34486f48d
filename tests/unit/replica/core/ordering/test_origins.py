"""What is redriven without a goal goes where its caller may produce; what stays names no queue that it may not see."""

from __future__ import annotations

from replica.core.ordering.origins import Origins
from replica.core.ordering.sweep import Verb
from replica.machine.state.rights import PRODUCE
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import Properties, PropertyValue
from tests.support.clients import create
from tests.support.member import Member
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_dying import payloads
from tests.unit.replica.core.ordering.test_sweeps import Call, filled, send

WHO = "principal/billing"
QUEUES = ("open", "seen", "hidden")


def dead() -> tuple[Pair, Member]:
    """Messages in q that came from each of these."""
    pair, master = filled(0)
    for queue in QUEUES:
        create(pair, queue)
        send(pair, "q", queue.encode(), properties=[Properties(entries={"tq_origin_queue": PropertyValue(text=queue)})])
    return pair, master


def redriven(pair: Pair, master: Member, who: str) -> Call:
    def may(whose: str, right: int, *names: str) -> bool:
        return (whose, right) == (WHO, PRODUCE) and "open" in names

    call = Call(master, Verb.REDRIVE, who=who)
    call.sweeps.origins = Origins(
        master.shared.machine.state, may, lambda _who, *names: not {"open", "seen"}.isdisjoint(names)
    )
    while not call.turn():
        pass
    pair.settle(200)
    return call


def test_a_caller_puts_back_what_it_may_send_there_itself() -> None:
    pair, master = dead()
    answer = redriven(pair, master, WHO).answer
    assert (answer.done, payloads(master, "open"), len(payloads(master, "q"))) == (1, [b"open"], 2)
    left = {each.reason: (each.queue, each.count) for each in answer.behind}
    assert left == {Reason.REASON_PERMISSION_DENIED: ("seen", 1), Reason.REASON_QUEUE_NOT_FOUND: ("", 1)}
    assert "hidden" not in str(answer.behind)


def test_nobody_is_asked_about_who_is_of_this_host() -> None:
    pair, master = dead()
    assert redriven(pair, master, "").answer.done == len(QUEUES)

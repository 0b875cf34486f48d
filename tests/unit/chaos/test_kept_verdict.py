"""What the load of a kept pair proves, from histories that are written by hand."""

from __future__ import annotations

import pytest

from chaos.history import FAIL, OK, Acked, Delivered, History, Message, Operation, Seen, Settled, Struck
from chaos.kept_verdict import Verdict, judge, judge_carried
from chaos.through import take

COUNT = 20


def seen(member: str, role: str) -> Seen:
    return Seen(8.0, 8.1, member, "disk", 1, role, "IN_SYNC", 1, 9, "d", "s", 0)


def history(*, offset: int = 0) -> History:
    """Twenty messages were sent, acknowledged, delivered (`offset` further on) and settled; the pair is whole."""
    made = History()
    for number in range(COUNT):
        message, at_s = Message(0, number), number / 10
        made.operations.append(Operation("p", "enqueue", at_s, at_s + 0.01, OK, (message,)))
        made.acked.append(Acked(at_s, at_s + 0.01, message, number + 1, 1, 2))
        made.delivered.append(Delivered(at_s + 0.02, message, number + 1 + offset, 1))
        made.settled.append(Settled(at_s + 0.03, number + 1 + offset))
    made.seen += [seen("a", "MASTER"), seen("b", "REPLICA")]
    return made


def carried(made: History, doubled_max: int | None = 0) -> Verdict:
    return judge_carried(made, [], [], sent_per_s=10, seconds=2, doubled_max=doubled_max)


def direct(made: History, struck: list[Struck] | None = None, sent_per_s: float = 10) -> Verdict:
    return judge(made, struck or [], [], sent_per_s=sent_per_s, seconds=2)


def test_a_good_history_holds() -> None:
    assert direct(history()).verdict == "held"
    found = carried(history(offset=100))
    assert (found.verdict, found.figures["acknowledged"], found.figures["delivered"]) == ("held", COUNT, COUNT)


def test_a_carried_history_is_not_good_for_one_queue() -> None:
    """Its indexes are of two queues: this is why it has checks of its own."""
    assert direct(history(offset=100)).verdict == "broken"


@pytest.mark.parametrize("offset", [0, 100])
def test_what_is_lost_is_found(offset: int) -> None:
    made = history(offset=offset)
    del made.delivered[7], made.settled[7]
    found = carried(made) if offset else direct(made)
    assert found.verdict == "broken"
    assert found.figures["lost"] == 1
    assert "nothing_acknowledged_is_lost" in found.broken


def test_what_arrives_twice_is_counted_and_may_be_allowed() -> None:
    made = history(offset=100)
    made.delivered.append(Delivered(9.0, Message(0, 3), 500, 1))
    assert take(made).doubled == 1
    assert carried(made).broken == {"carried_once": ["1 messages arrived once more, 0 may"]}
    assert carried(made, 1).verdict == carried(made, None).verdict == "held"


def test_a_second_delivery_of_one_place_is_no_double() -> None:
    made = history(offset=100)
    again = made.delivered[3]
    del made.settled[3]
    made.delivered.append(Delivered(9.0, again.message, again.index, 2))
    assert (take(made).doubled, take(made).redelivered) == (0, 1)


def test_what_nobody_sent_is_found() -> None:
    made = history(offset=100)
    made.delivered.append(Delivered(9.0, Message(7, 7), 500, 1))
    made.operations.append(Operation("p", "enqueue", 1.0, 1.1, FAIL, (Message(0, 99),)))
    made.delivered.append(Delivered(9.1, Message(0, 99), 501, 1))
    assert carried(made).figures["unexpected"] == 2
    assert "nothing_comes_unasked" in carried(made).broken


def test_too_little_traffic_and_a_fault_without_effect_prove_nothing() -> None:
    assert direct(History(seen=[seen("a", "MASTER"), seen("b", "REPLICA")])).verdict == "invalid"
    assert direct(history(), sent_per_s=1000).verdict == "invalid"
    found = direct(history(), [Struck("cut", ("a",), 1.0, 1.5)])
    assert (found.verdict, found.faults, found.invalid) == ("invalid", {"cut": (0, 1)}, ["no cut of 1 had an effect"])

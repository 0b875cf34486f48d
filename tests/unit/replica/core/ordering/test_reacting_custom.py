"""Reactions that ask somebody about each message, over a pair in one process: what is decided when he has said it, and
what a failure leaves (V10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering import reaction_questions
from replica.core.ordering.reaction import Advice, Effect
from replica.core.state.calls import PendingCall
from replica.core.state.outcomes import Failed, ReactionDone
from replica.machine import AliasCall
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.reaction_service_pb2 import ReactionUpdate
from tests.support.clients import Waiter, create
from tests.unit.replica.core.ordering.test_dying import contents, payloads, take
from tests.unit.replica.core.ordering.test_reacting import CALL, Call, counts, filled, taken_over, where
from tests.unit.replica.core.ordering.test_sweeps import numbered, send, update

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.messages.copies import FoundMessage
    from tests.support.member import Member
    from tests.support.pair import Pair

    Says = Callable[[FoundMessage], Effect | str | None]

ANY = where(selector="tq_index > 0")


class Asks:
    """One attempt of a call that asks somebody."""

    def __init__(self, member: Member, says: Says, **more: Any) -> None:
        self.call = Call(member, ANY, asking=Advice("them"), **more)
        self.says = says
        self.asked: list[int] = []

    def turn(self) -> bool:
        """Whether it is over; else somebody is to be asked."""
        return self.call.turn()

    def ask(self) -> None:
        asking = self.call.reaction.asking
        assert asking is not None
        for found in asking.questions:
            self.asked.append(found.index)
            said = self.says(found)
            if isinstance(said, str):
                asking.failed[found.index] = said
            else:
                asking.effects[found.index] = said

    def run(self) -> Any:
        while not self.turn():
            self.ask()
        self.call.member.pair.settle(200)
        return self.call.waiter.done


def alias(pair: Pair, queue: str, name: str) -> None:
    assert pair.master is not None
    pair.master.submit(PendingCall(Waiter(), AliasCall(name, queue, name.rjust(16).encode(), 7)))
    pair.settle(200)


def each(*said: Effect | str | None) -> Says:
    """By index, from 1."""
    return lambda found: said[found.index - 1]


DELETE, LEAVE = Effect(), None


@pytest.mark.requirement("R212")
@pytest.mark.parametrize("at_once", [1, 1_000])
def test_v10_what_was_said_of_each_is_one_record(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaction_questions, "QUESTIONS_MAX", at_once)
    pair, master = filled(7)
    create(pair, "s")
    before = master.shared.log.last_index
    new = Effect(update=ReactionUpdate(payload=b"new"))
    asks = Asks(master, each(LEAVE, DELETE, Effect("r"), new, Effect("s"), "it crashed", Effect("r")))
    done = asks.run()
    assert counts(done) == {"applied": 5, "left": 1, "failed": 1}
    assert asks.asked == [1, 2, 3, 4, 5, 6, 7]
    assert master.shared.log.last_index == before + 1
    for member in (master, master.peer):
        assert payloads(member, "q") == [*numbered(1, 6), b"new"]
        assert (payloads(member, "r"), payloads(member, "s")) == (numbered(3, 7), numbered(5))


def test_v10_nobody_asks_again_what_is_recorded() -> None:
    pair, master = filled(2)
    assert counts(Asks(master, each(LEAVE, LEAVE)).run()) == {"left": 2}
    again = Asks(master, each(DELETE, DELETE))
    assert again.run().duplicate
    survivor = taken_over(pair)
    after = Asks(survivor, each(DELETE, DELETE))
    done = after.run()
    assert (done.duplicate, counts(done), again.asked, after.asked) == (True, {"left": 2}, [], [])
    assert payloads(survivor, "q") == numbered(1, 2)


def test_v10_it_is_decided_by_where_they_are_when_all_was_said() -> None:
    pair, master = filled(3)
    asks = Asks(master, each(DELETE, DELETE, DELETE))
    assert not asks.turn()
    asks.ask()
    take(pair, 1)  # while somebody thinks
    assert counts(asks.run()) == {"applied": 2, "locked": 1}
    assert asks.asked == [1, 2, 3]


def test_v10_the_first_is_the_one_that_is_first_when_it_is_decided() -> None:
    pair, master = filled(3)
    asks = Asks(master, each(DELETE, Effect("r"), LEAVE), first=True)
    assert not asks.turn()
    asks.ask()
    take(pair, 1)
    assert not asks.turn(), "nobody has been asked about the one that is first now"
    asks.ask()
    assert counts(asks.run()) == {"applied": 1, "locked": 1}
    assert (asks.asked, payloads(master, "r")) == ([1, 2], numbered(2))


def test_v10_what_arrives_meanwhile_is_not_asked_about() -> None:
    pair, master = filled(1)
    asks = Asks(master, lambda _: DELETE)
    assert not asks.turn()
    send(pair, "q", *numbered(2))
    asks.ask()
    assert counts(asks.run()) == {"applied": 1}
    assert (asks.asked, payloads(master, "q")) == ([1], numbered(2))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Effect(update=ReactionUpdate(payload=b"x" * 101)), "max_message_bytes"),
        (Effect("nowhere"), "nowhere"),
        (Effect("q"), "already"),
        (Effect("other-q"), "already"),
        (Effect("tells"), "report_to"),
    ],
)
def test_v10_what_cannot_be_done_is_failed_and_the_rest_happens(said: Effect, why: str) -> None:
    pair, master = filled(max_message_bytes=100)
    create(pair, "tells")
    alias(pair, "q", "other-q")
    send(pair, "q", *numbered(1, 2))
    asks = Asks(master, each(said, DELETE), report_to="tells")
    assert counts(asks.run()) == {"applied": 1, "failed": 1}
    asking = asks.call.reaction.asking
    assert asking is not None
    assert why in asking.failed[1]
    assert payloads(master, "q") == numbered(1)
    (report,) = contents(master, "tells")
    assert report.message.properties["tq_failed"].integer == 1


def test_v10_two_names_of_one_queue_are_one_queue() -> None:
    pair, master = filled(3)
    alias(pair, "r", "other-r")
    assert counts(Asks(master, each(Effect("r"), Effect("other-r"), Effect("r"))).run()) == {"applied": 3}
    assert payloads(master, "r") == numbered(1, 2, 3)


def test_v10_all_answers_together_have_room_or_nothing_is_done() -> None:
    pair, master = filled(3)
    update(pair, "r", max_length=2)
    done = Asks(master, lambda _: Effect("r")).run()
    assert isinstance(done, Failed)
    assert done.reason == Reason.REASON_QUEUE_FULL
    assert (payloads(master, "q"), payloads(master, "r")) == (numbered(1, 2, 3), [])
    assert counts(Asks(master, each(Effect("r"), Effect("r"), LEAVE)).run()) == {"applied": 2, "left": 1}


def test_v10_a_takeover_while_somebody_is_asked_leaves_nothing() -> None:
    pair, master = filled(2)
    asks = Asks(master, lambda _: DELETE)
    assert not asks.turn()
    survivor = taken_over(pair)
    asks.ask()  # nobody is left to hear it
    assert payloads(survivor, "q") == numbered(1, 2)
    done = Asks(survivor, lambda _: DELETE).run()
    assert isinstance(done, ReactionDone)
    assert (done.duplicate, counts(done)) == (False, {"applied": 2})


def test_v10_two_calls_of_one_id_have_one_effect() -> None:
    """The caller has given up and repeats, while the first attempt still asks."""
    _, master = filled(2)
    first, second = Asks(master, each(DELETE, LEAVE)), Asks(master, each(LEAVE, DELETE))
    assert not first.turn()
    assert not second.turn()
    second.ask()
    assert counts(second.run()) == {"applied": 1, "left": 1}
    first.ask()
    done = first.run()
    assert (done.duplicate, payloads(master, "q")) == (True, numbered(1))
    assert CALL in master.shared.machine.state.requests

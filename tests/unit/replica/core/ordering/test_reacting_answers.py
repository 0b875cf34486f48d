"""What the caller of a reaction hears of copies and of those who wait, and what a kept one says of itself, over a pair
in one process.
"""

from __future__ import annotations

from typing import Any

import pytest

from replica.core.ordering.reaction import Effect
from replica.core.ordering.travelling import SourceIds
from replica.core.state.outcomes import Failed
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY
from tests.support.clients import create
from tests.unit.replica.core.ordering import test_kept_reactions as kept
from tests.unit.replica.core.ordering import test_room
from tests.unit.replica.core.ordering.test_copies_wanted import alone
from tests.unit.replica.core.ordering.test_dying import contents, payloads
from tests.unit.replica.core.ordering.test_open_units import begun, why
from tests.unit.replica.core.ordering.test_reacting import Call, counts, filled, run, where
from tests.unit.replica.core.ordering.test_reacting_custom import Asks, alias
from tests.unit.replica.core.ordering.test_sweeps import act, numbered, send
from tests.unit.replica.core.ordering.test_unit_reactions import held

ANY = where(selector="tq_index > 0")


# -- copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("require_two", [False, True])
@pytest.mark.parametrize("min_copies", [0, 1, 2])
@pytest.mark.parametrize("copies", [1, 2])
def test_it_is_done_where_as_many_hold_it_as_are_asked_for(min_copies: int, copies: int, require_two: bool) -> None:
    pair, master = filled(2, require_two=require_two)
    if copies == 1:
        assert alone(pair) is master
    assert master.core.orders.copies == copies
    done = run(pair, ANY, min_copies=min_copies)
    if copies >= max(min_copies, 1 + require_two):
        assert (counts(done), done.copies) == ({"applied": 2}, copies)
        assert payloads(master, "q") == []
    else:
        assert (why(done), done.metadata) == ("NOT_ENOUGH_COPIES", {"copies": "1", "min_copies": "2"})
        assert payloads(master, "q") == numbered(1, 2), "nothing was done"


@pytest.mark.parametrize(("min_copies", "outcome"), [(1, ""), (2, "stored")])
def test_what_was_ordered_while_a_copy_went_away_says_that_it_is_done(min_copies: int, outcome: str) -> None:
    pair, master = filled(2)
    call = Call(master, ANY, min_copies=min_copies)
    assert call.turn()
    assert alone(pair) is master
    assert (pair.master, payloads(master, "q")) == (master, [])
    done = call.waiter.done
    if not outcome:
        assert (counts(done), done.copies) == ({"applied": 2}, 1)
    else:
        assert (why(done), done.metadata["outcome"], done.retry_after_ms) == ("NOT_ENOUGH_COPIES", "stored", 1_000)
        assert done.message.startswith("done, but ")


# -- those who wait ----------------------------------------------------------------------------------------------------


def test_a_move_that_would_pass_those_who_wait_for_room_says_when_to_come_again() -> None:
    """U7, V9. Theirs is a larger one, so that there is room for what is moved."""
    pair, master = filled(1)
    create(pair, "f", max_length=3)
    send(pair, "f", b"a", b"b")
    waits = test_room.send(master, "p", wait_ms=60_000, count=2, queue="f")
    pair.settle(20)
    assert waits.waits
    done = run(pair, ANY, to="f")
    assert isinstance(done, Failed)
    assert (done.reason, done.metadata, done.retry_after_ms) == (Reason.REASON_QUEUE_FULL, {"queue": "f"}, 100)
    assert "others wait for room in queue f" in done.message
    assert (payloads(master, "q"), payloads(master, "f")) == (numbered(1), [b"a", b"b"])


# -- queues of requests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_unit", [False, True])
def test_v8_a_request_whose_answer_would_come_back_is_not_changed(in_unit: bool) -> None:
    """Its queue has that name since it was sent."""
    pair, master = filled(queue_type=QUEUE_TYPE_TWO_WAY)
    send(pair, "q", b"1?", reply_tos=["answers"])
    alias(pair, "q", "answers")
    change = {"update": pb.ReactionUpdate(payload=b"2?")}
    done = held(pair, begun(pair), **change) if in_unit else run(pair, ANY, **change)
    assert why(done) == "BAD_REQUEST"
    assert payloads(master, "q") == [b"1?"]


@pytest.mark.parametrize("exceptions", [pb.EXCEPTION_REPORT_NONE, pb.EXCEPTION_REPORT_FULL])
def test_v14_a_report_may_be_a_request(exceptions: Any) -> None:
    pair, master = filled()
    create(pair, "told", queue_type=QUEUE_TYPE_TWO_WAY)
    send(pair, "q", b"1", reply_tos=["told"])
    assert counts(run(pair, ANY, report_to="told", exceptions=exceptions)) == {"applied": 1}
    said = [row.message.properties["tq_report"].text for row in contents(master, "told")]
    assert said == (["reacted", "reaction"] if exceptions == pb.EXCEPTION_REPORT_FULL else ["reaction"])


# -- made anew ---------------------------------------------------------------------------------------------------------


def test_v10_of_a_queue_that_was_made_anew_it_is_asked_about_what_is_there_now() -> None:
    """What was said of the old queue's first message says nothing of the new one's."""
    pair, master = filled(2)
    said = [Effect("r"), None]
    asks = Asks(master, lambda _: said[0])
    assert not asks.turn()
    asks.ask()
    act(pair, QUEUE_ACTION_DELETE, "q")
    create(pair, "q", reactions_enabled=True)
    send(pair, "q", b"new")
    said.pop(0)
    assert counts(asks.run()) == {"left": 1}
    assert asks.asked == [1, 2, 1]
    assert (payloads(master, "q"), payloads(master, "r")) == ([b"new"], [])


# -- kept --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["", "lyon/main"])
@pytest.mark.parametrize("principal", ["", "principal/billing"])
def test_v11_what_a_kept_reaction_says_of_itself(principal: str, source: str) -> None:
    pair, master = kept.begin()
    call = kept.call_of(master, kept.ALL, 5_000, 1, {}, {"ids": [b"i" * 16]})
    reaction = call.reaction
    assert reaction.keep is not None
    reaction.keep = reaction.keep._replace(principal=principal)
    if source:
        reaction.named, reaction.asked = SourceIds(source, frozenset([b"i" * 16])), ANY
    assert counts(call.run()) == {"kept": True}
    (row,) = contents(master, kept.STORE)
    message = row.message
    assert (message.payload, message.persistent) == (reaction.keep.body, True)
    said = {name: value.text for name, value in message.properties.items()}
    wanted = {"tq_principal": principal, "tq_source": source}
    assert said == {name: text for name, text in wanted.items() if text}
    (part,) = master.shared.machine.state.named(kept.STORE).segments.parts(1, 2)
    assert 4_700 < part.expires_at_ms - pair.wall_ms <= 5_000

"""What a queue takes of another one now, later and never: what never goes stays by itself, with a true word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering import dying, replying, sweeps
from replica.core.ordering.sweep import Verb
from replica.core.state.calls import PendingCall
from replica.machine import AliasCall
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import OVERFLOW_DROP_HEAD, QUEUE_TYPE_TWO_WAY
from tests.support.clients import Reader, Waiter, create
from tests.unit.replica.core.ordering.test_dying import begin, info, payloads, reject, take, update
from tests.unit.replica.core.ordering.test_reply_copies import answer, asked, owed, taken
from tests.unit.replica.core.ordering.test_sweeps import run, send

if TYPE_CHECKING:
    from tests.support.member import Member
    from tests.support.pair import Pair

MANY = [b"%d" % number for number in range(8)]
LARGE = b"x" * 101


def dying_into(*rows: bytes, **config: Any) -> tuple[Pair, Member]:
    """A pair whose queue q has rejected these, and d, where they go."""
    pair, master = begin(0)
    create(pair, "d", **config)
    update(pair, "q", dead_letter_queue="d")
    for row in rows:
        send(pair, "q", row)
    return pair, master


def waits(master: Member) -> list[str]:
    return [note.partition("dead letters wait: ")[2] for note in master.notes if "dead letters wait" in note]


# -- dead letters ------------------------------------------------------------------------------------------------------


def test_a_dead_letter_that_never_fits_is_held_back_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it slow down those behind it: they go at the pace of the looks, not of the tries."""
    monkeypatch.setattr(dying, "MOVE_MESSAGES_MAX", 2)
    pair, master = dying_into(b"0", LARGE, *MANY, max_bytes=100, max_message_bytes=50)
    reject(pair, take(pair, 10))
    pair.settle(dying.AGAIN_MS // 2)
    assert payloads(master, "d") == [b"0", *MANY]
    assert payloads(master, "q") == [LARGE]
    pair.settle(5_000)
    assert waits(master) == ["some cannot go: more payload than queue d may hold in all (max_bytes 100)"]
    update(pair, "d", max_bytes=1_000)
    pair.settle(3_000)
    assert payloads(master, "d") == payloads(master.peer, "d") == [b"0", *MANY, LARGE]
    assert not master.core.dying.held_back


def test_two_reasons_at_once_are_told_once_each() -> None:
    pair, master = dying_into(LARGE, *MANY, max_bytes=100, max_message_bytes=50, max_length=3)
    reject(pair, take(pair, 10))
    pair.settle(10_000)
    assert payloads(master, "d") == MANY[:3]
    assert waits(master) == [
        "some cannot go: more payload than queue d may hold in all (max_bytes 100)",
        "queue d is full",
    ]


def test_large_ones_are_read_a_bounded_number_of_bytes_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dying, "MOVE_BYTES_MAX", 250)
    pair, master = dying_into(*[LARGE] * 8, b"small", max_bytes=100, max_message_bytes=50)
    reject(pair, take(pair, 10))
    pair.quiesce()
    reads: list[int] = []
    read = master.core.dying.read
    master.core.dying.read = lambda log_index: reads.append(log_index) or read(log_index)
    for look in range(1, 4):
        del reads[:]
        master.core.dying.look(pair.now_ms + look * dying.AGAIN_MS)
        pair.quiesce()
        assert 1 <= len(reads) <= 3
    assert payloads(master, "d") == [b"small"]


def test_one_that_does_not_fit_now_keeps_its_place() -> None:
    """A small one behind it would fit, and would take the room that the large one waits for."""
    pair, master = dying_into(b"a" * 60, b"b" * 60, b"c", max_bytes=100, max_message_bytes=60)
    reject(pair, take(pair))
    pair.settle(3_000)
    assert [row[:1] for row in payloads(master, "d")] == [b"a"]
    assert waits(master) == ["queue d is full"]
    take_one(pair, "d").ack(master)
    pair.settle(3_000)
    assert [row[:1] for row in payloads(master, "d")] == [b"b", b"c"]


def test_a_queue_that_drops_holds_none_back_however_many_records_it_takes() -> None:
    rows = [bytes([number]) * 60 for number in range(8)]
    pair, master = dying_into(*rows, max_bytes=130, max_message_bytes=60, overflow=OVERFLOW_DROP_HEAD)
    reject(pair, take(pair, 10))
    pair.settle(dying.AGAIN_MS // 2)
    assert payloads(master, "d") == payloads(master.peer, "d") == rows[-2:]
    assert info(master).dying == 0
    assert waits(master) == []


def test_a_queue_that_drops_takes_what_it_can_beside_what_is_leased_there() -> None:
    pair, master = dying_into(b"a" * 40, b"b" * 40, max_bytes=100, max_message_bytes=60, overflow=OVERFLOW_DROP_HEAD)
    send(pair, "d", b"held" * 15)
    assert len(take_one(pair, "d").delivered) == 1
    reader = take(pair)
    reject(pair, reader)
    pair.settle(500)
    assert [row[:1] for row in payloads(master, "d")] == [b"h", b"b"], "the second one drops the first"
    assert waits(master) == []
    assert info(master).dying == 0
    assert len(take_one(pair, "d").delivered) == 1
    reader.delivered.clear()
    send(pair, "q", b"late" * 10)
    reject(pair, reader)
    pair.settle(500)
    assert waits(master) == ["queue d is full, and what is leased or delayed there cannot be dropped"]


def take_one(pair: Pair, queue: str) -> Reader:
    reader = Reader(pair, queue)
    assert pair.master is not None
    reader.attach(pair.master, 1)
    pair.quiesce()
    return reader


# -- copies of answers -------------------------------------------------------------------------------------------------


def test_copies_of_answers_go_beside_what_is_leased_too() -> None:
    pair, master = asked(made=False)
    create(pair, "r", max_bytes=20, max_message_bytes=20, overflow=OVERFLOW_DROP_HEAD)
    send(pair, "r", b"held" * 2)
    assert len(take_one(pair, "r").delivered) == 1
    update(pair, "r", enqueue_enabled=False)
    for request in taken(pair):
        answer(master, *request)
    pair.settle(100)
    assert len(owed(master)["r"]) == 3
    update(pair, "r", enqueue_enabled=True)
    pair.settle(3_000)
    assert not owed(master)
    assert payloads(master, "r") == [b"heldheld", b"answer 3"], "each drops the one before it"


# -- moves -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [Verb.MOVE, Verb.REDRIVE])
def test_a_message_that_never_fits_stays_and_those_behind_it_move(verb: Verb) -> None:
    pair, master = begin(0)
    create(pair, "r", max_bytes=100, max_message_bytes=50)
    for row in (b"0", LARGE, b"1"):
        send(pair, "q", row)
    done = run(pair, verb, to="r")
    assert (done.done, [(each.reason, each.queue, each.count, each.message) for each in done.behind]) == (
        2,
        [(Reason.REASON_MESSAGE_TOO_LARGE, "r", 1, "more payload than queue r may hold in all (max_bytes 100)")],
    )
    assert (payloads(master, "q"), payloads(master, "r")) == ([LARGE], [b"0", b"1"])


# -- requests that name the queue that they come to --------------------------------------------------------------------

ITSELF = "reply_to is queue s itself: each answer would be a request again; name another queue"


def one_way(*reply_tos: str) -> tuple[Pair, Member]:
    """Messages in q that name these, and a queue s of requests, which is called t too."""
    pair, master = begin(0)
    create(pair, "s", queue_type=QUEUE_TYPE_TWO_WAY, lease_duration={"seconds": 600})
    alias = AliasCall("t", "s", b"a" * 16, 1)
    master.submit(PendingCall(Waiter(), alias))
    pair.settle()
    send(pair, "q", *MANY[: len(reply_tos)], reply_tos=reply_tos)
    return pair, master


@pytest.mark.parametrize("verb", [Verb.MOVE, Verb.REDRIVE])
def test_what_could_not_be_sent_there_is_not_moved_there(verb: Verb) -> None:
    pair, master = one_way("s", "", "t", "r", "x" * 256, "s")
    create(pair, "r")
    done = run(pair, verb, to="s")
    assert done.done == 2
    assert {(each.reason, each.queue): (each.count, each.message) for each in done.behind} == {
        (Reason.REASON_BAD_REQUEST, "s"): (3, ITSELF),
        (Reason.REASON_BAD_NAME, "s"): (1, "a reply_to of 256 bytes; a queue name has at most 255"),
    }
    assert payloads(master, "q") == [MANY[at] for at in (0, 2, 4, 5)]
    assert payloads(master, "s") == payloads(master.peer, "s") == [MANY[1], MANY[3]]
    for request in taken(pair, 2):
        answer(master, *request)
    pair.settle(200)
    assert payloads(master, "r") == [b"answer 2"]
    assert info(master, "s").copies_owed == 0
    assert run(pair, to="r", request_id=b"2" * 16).done == 4, "a queue of another type takes them"


def test_a_dead_letter_that_names_its_dead_letter_queue_waits_by_itself() -> None:
    pair, master = one_way("s", "")
    update(pair, "q", dead_letter_queue="s")
    reject(pair, take(pair))
    pair.settle(3_000)
    assert (payloads(master, "q"), payloads(master, "s")) == (MANY[:1], MANY[1:2])
    assert waits(master) == [f"some cannot go: {ITSELF}"]


def test_an_answer_that_names_the_queue_that_gets_its_copy_is_left() -> None:
    pair, master = asked(made=False)
    create(pair, "r", queue_type=QUEUE_TYPE_TWO_WAY)
    first, second, _ = taken(pair)
    answer(master, *first, reply_to="r")
    answer(master, *second, reply_to="elsewhere")
    pair.settle(3_000)
    assert payloads(master, "r") == [b"answer 2"]
    assert list(owed(master)["r"]) == [1]
    assert sum("request 1: reply_to is queue r itself" in note for note in master.notes) == 1


@pytest.mark.parametrize("where", ["move", "copy"])
def test_no_record_is_made_of_such_a_copy_whoever_asks(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    for module in (replying, sweeps):
        monkeypatch.setattr(module, "check_copy", lambda *_: None)
    if where == "move":
        pair, master = one_way("s")
        assert [(each.reason, each.message) for each in run(pair, to="s").behind] == [
            (Reason.REASON_BAD_REQUEST, ITSELF)
        ]
        return
    pair, master = asked(1, made=False)
    create(pair, "r", queue_type=QUEUE_TYPE_TWO_WAY)
    (request,) = taken(pair, 1)
    answer(master, *request, reply_to="r")
    pair.settle(1_000)
    assert payloads(master, "r") == []
    assert sum("would be a request again" in note for note in master.notes) == 1

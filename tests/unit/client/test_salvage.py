"""What an import is made of: the identity of an operation, and the rest of a batch of which a part is done with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tandemq.client.salvage import COPIES_NEVER, Importer, Outcome, identity_of, without
from tandemq.errors import TandemqError
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import pair_service_pb2 as pair
from tandemq.v1 import queue_service_pb2 as pb
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.pair_service_pb2 import ReadSalvageResponse
from tests.unit.client.fake import FakeMember, FakeStream


def operation(**fields: object) -> ReadSalvageResponse:
    return ReadSalvageResponse(**{"pair": "p", "domain": "main", "epoch": 3, "log_index": 7, **fields})  # type: ignore[arg-type]


def test_the_identity_is_that_of_the_operation_and_of_nothing_else() -> None:
    known = identity_of(operation())
    assert known == identity_of(operation(queue="q", acknowledged=True, batch=b"x"))
    others = [
        operation(pair="pm", domain="ain"),
        operation(domain="other"),
        operation(epoch=4),
        operation(log_index=8),
    ]
    assert len({known, *map(identity_of, others)}) == 5
    assert len(known) <= 64


def test_the_identity_is_that_of_every_version() -> None:
    """An import that is repeated by a newer client has one effect."""
    assert identity_of(operation()) == b"salvage/" + bytes.fromhex("21d1733e081cac307f170cf79132a7b5")


def test_columns_of_one_entry_stay_and_the_others_lose_what_is_done() -> None:
    batch = MessageBatch(payloads=[b"0", b"1", b"2"], priorities=[5], ttls_ms=[1, 2, 3], content_types=["a", "b", "c"])
    rest = without(batch, {1})
    assert list(rest.payloads) == [b"0", b"2"]
    assert list(rest.priorities) == [5]
    assert list(rest.ttls_ms) == [1, 3]
    assert list(rest.content_types) == ["a", "c"]
    assert without(batch, set()) is batch


BATCH = pb.EnqueueBatch(queue="q", first_sequence=9, messages=MessageBatch(payloads=[b"0", b"1", b"2"]))
NOT_THERE = {"reject": pb.EnqueueReject(error=common.Error(reason=common.REASON_DEDUP_EXPIRED))}


def saved(**fields: Any) -> ReadSalvageResponse:
    """An acknowledged batch of three messages, of a producer."""
    given = {"operation": "enqueue", "queue": "q", "acknowledged": True, "client_id": b"c" * 16, "count": 3}
    return operation(**{**given, "batch": BATCH.SerializeToString(), **fields})


async def imported(
    member: FakeMember, found: ReadSalvageResponse, *answers: dict[str, Any], everything: bool = False
) -> tuple[Outcome, str]:
    """What becomes of it at a member that answers its streams so."""

    def script(answer: dict[str, Any]) -> Any:
        async def run(stream: FakeStream) -> None:
            await stream.read()
            await stream.write(opened=pb.ProduceOpened(header=member.header()))
            await stream.read()
            await stream.write(**answer)

        return run

    async def one() -> AsyncIterator[ReadSalvageResponse]:
        yield found

    member.produce = [script(answer) for answer in answers]
    (line,) = [line async for line in Importer(member.endpoint, everything=everything).run(one())]
    assert (line.log_index, line.epoch, line.queue, line.messages) == (7, 3, "q", 3 - len(found.done))
    return line.outcome, line.detail


def refused(reason: common.Reason, **metadata: str) -> dict[str, Any]:
    return {"reject": pb.EnqueueReject(error=common.Error(reason=reason, message="because", metadata=metadata))}


OWN = [
    ({"ack": pb.EnqueueAck(first_index=5)}, Outcome.IMPORTED, "index 5"),
    ({"ack": pb.EnqueueAck(first_index=5, duplicate=True)}, Outcome.IMPORTED_BEFORE, "index 5"),
    (
        {"ack": pb.EnqueueAck(errors=[pb.EntryError(error=common.Error(reason=common.REASON_QUEUE_FULL))])},
        Outcome.REFUSED,
        "1 of 3 messages: QUEUE_FULL",
    ),
    (refused(common.REASON_DEDUP_EXPIRED, last_sequence="3"), Outcome.IMPORTED_BEFORE, ""),
    (refused(common.REASON_DEDUP_EXPIRED, last_sequence="0"), Outcome.REFUSED, "DEDUP_EXPIRED: because"),
    (refused(common.REASON_DEDUP_EXPIRED), Outcome.REFUSED, "DEDUP_EXPIRED: because"),
    (refused(common.REASON_QUEUE_NOT_FOUND, last_sequence="3"), Outcome.REFUSED, "QUEUE_NOT_FOUND: because"),
]


@pytest.mark.parametrize(("answer", "outcome", "detail"), OWN)
async def test_what_the_pair_does_not_have_is_put_there_under_the_identity_of_the_operation(
    member: FakeMember, answer: dict[str, Any], outcome: Outcome, detail: str
) -> None:
    assert await imported(member, saved(), NOT_THERE, answer) == (outcome, detail)
    asked, put = ([pb.ProduceRequest.FromString(frame) for frame in stream.frames] for stream in member.produced)
    assert (asked[0].open.client_id, asked[0].open.min_copies) == (b"c" * 16, COPIES_NEVER), "nothing new is stored"
    assert asked[1].batch == BATCH
    assert (put[0].open.client_id, put[0].open.min_copies) == (identity_of(saved()), 0)
    assert (put[1].batch.first_sequence, list(put[1].batch.messages.payloads)) == (1, [b"0", b"1", b"2"])


async def test_what_is_done_with_is_not_put_there(member: FakeMember) -> None:
    found = await imported(member, saved(done=[1]), NOT_THERE, {"ack": pb.EnqueueAck(first_index=5)})
    assert found == (Outcome.IMPORTED, "index 5")
    put = pb.ProduceRequest.FromString(member.produced[1].frames[1])
    assert list(put.batch.messages.payloads) == [b"0", b"2"]


@pytest.mark.parametrize(
    "answer", [{"ack": pb.EnqueueAck()}, refused(common.REASON_NOT_ENOUGH_COPIES, outcome="stored")]
)
async def test_what_the_pair_has_stays_as_it_is(member: FakeMember, answer: dict[str, Any]) -> None:
    assert await imported(member, saved(), answer) == (Outcome.THERE, "")
    assert len(member.produced) == 1


LEFT = [
    ({"operation": "settle"}, Outcome.NOT_A_MESSAGE),
    ({"acknowledged": False, "certainty": pair.ACKNOWLEDGEMENT_NONE}, Outcome.UNACKNOWLEDGED),
    ({"acknowledged": False}, Outcome.PERHAPS),
    ({"batch": b""}, Outcome.NO_BODY),
    ({"done": [0, 1, 2]}, Outcome.DONE),
    ({"client_id": b""}, Outcome.INTERNAL),
]


@pytest.mark.parametrize(("fields", "outcome"), LEFT)
async def test_what_need_not_be_imported_asks_nobody(
    member: FakeMember, fields: dict[str, Any], outcome: Outcome
) -> None:
    assert (await imported(member, saved(**fields)))[0] is outcome
    assert member.produced == []


@pytest.mark.parametrize("certainty", [pair.ACKNOWLEDGEMENT_NONE, pair.ACKNOWLEDGEMENT_PERHAPS])
async def test_whoever_wants_everything_gets_what_was_not_acknowledged(member: FakeMember, certainty: int) -> None:
    found = saved(acknowledged=False, certainty=certainty)
    assert (await imported(member, found, {"ack": pb.EnqueueAck()}, everything=True))[0] is Outcome.THERE


async def test_where_the_mastership_moves_meanwhile_the_import_is_to_be_repeated(member: FakeMember) -> None:
    with pytest.raises(TandemqError) as caught:
        await imported(member, saved(), NOT_THERE, {"goaway": pb.Goaway()})
    assert caught.value.reason == "NO_MASTER"


async def test_a_stream_that_ends_without_an_answer_says_why_or_that_the_import_is_to_be_repeated(
    member: FakeMember,
) -> None:
    async def run() -> None:
        async def one() -> AsyncIterator[ReadSalvageResponse]:
            yield saved()

        async for _ in Importer(member.endpoint).run(one()):
            pass

    async def ends(stream: FakeStream) -> None:
        await stream.read()
        await stream.write(opened=pb.ProduceOpened(header=member.header()))
        await stream.read()

    async def refuses(stream: FakeStream) -> None:
        await ends(stream)
        await stream.refuse(common.REASON_QUEUE_NOT_FOUND)

    for script, reason in ((ends, "UNREACHABLE"), (refuses, "QUEUE_NOT_FOUND")):
        member.produced.clear()
        member.produce = [script]
        with pytest.raises(TandemqError) as caught:
            await run()
        assert caught.value.reason == reason

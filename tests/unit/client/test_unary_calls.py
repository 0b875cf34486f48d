"""What each call about a queue, or about weights, says on the wire: its method, and what its caller gave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandemq.client import aio
from tandemq.client.places import JournalPosition
from tandemq.client.weights import WeightTable
from tandemq.errors import TandemqError
from tandemq.v1 import batch_service_pb2 as batches
from tandemq.v1 import journal_service_pb2 as journal
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2
from tandemq.v1 import weights_service_pb2 as weights
from tests.unit.client.fake import QUEUE, FakeMember

CONFIG = admin.QueueConfig(max_length=7)
AT = datetime(2027, 1, 2, tzinfo=UTC)


@pytest.fixture
async def member() -> AsyncIterator[FakeMember]:
    async with FakeMember() as started:
        yield started


class Called:
    """Every method of a service is answered by its empty response, or by the one that is given."""

    def __init__(self, member: FakeMember, file: Any, service: str) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {}
        for method in file.DESCRIPTOR.services_by_name[service].methods:
            request, response = (getattr(file, each.name, None) for each in (method.input_type, method.output_type))
            if request is not None and response is not None:
                path = f"/tandemq.v1.{service}/{method.name}"
                member.unary[path] = self._handler(member, method.name, request, response)

    def _handler(
        self, member: FakeMember, name: str, request: Any, response: Any
    ) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def handler(data: bytes, _context: Any) -> bytes:
            self.seen.append((name, request.FromString(data)))
            answer = self.answers.get(name, response())
            answer.header.CopyFrom(member.header())
            encoded: bytes = answer.SerializeToString()
            return encoded

        return handler


ADMIN: list[tuple[str, Callable[[aio.Client], Awaitable[Any]], dict[str, Any]]] = [
    (
        "CreateQueue",
        lambda c: c.create_queue("q", CONFIG, configuring=True),
        {"name": "q", "config": CONFIG, "configuring": True},
    ),
    ("CreateQueue", lambda c: c.create_queue("q"), {"name": "q"}),
    ("CreateReplicatedQueue", lambda c: c.create_replicated_queue("q", CONFIG), {"name": "q", "config": CONFIG}),
    ("OpenReplicatedQueue", lambda c: c.open_replicated_queue("q"), {"name": "q"}),
    (
        "OpenReplicatedQueue",
        lambda c: c.open_replicated_queue("q", master_required=True, options=CONFIG),
        {"name": "q", "master_required": True, "options": CONFIG},
    ),
    ("CloseReplicatedQueue", lambda c: c.close_replicated_queue("q"), {"name": "q"}),
    ("DestroyReplicatedQueue", lambda c: c.destroy_replicated_queue("q"), {"name": "q"}),
    (
        "DestroyReplicatedQueue",
        lambda c: c.destroy_replicated_queue("q", both_members=True),
        {"name": "q", "both_members": True},
    ),
    ("RestartSide", lambda c: c.restart_side("q", "b"), {"name": "q", "member": "b"}),
    ("RestartSide", lambda c: c.restart_side("q", "b", after=0), {"name": "q", "member": "b", "after": 0}),
    ("GetQueue", lambda c: c.get_queue("q"), {"name": "q"}),
    (
        "UpdateQueue",
        lambda c: c.update_queue("q", CONFIG, ["max_length"], expected_version=3),
        {"name": "q", "config": CONFIG, "update_mask": {"paths": ["max_length"]}, "expected_version": 3},
    ),
    ("DeleteQueue", lambda c: c.delete_queue("q"), {"name": "q"}),
    ("DeleteQueue", lambda c: c.delete_queue("q", if_empty=True), {"name": "q", "if_empty": True}),
    ("DeleteQueue", lambda c: c.delete_queue("q", if_unused=True), {"name": "q", "if_unused": True}),
    ("PurgeQueue", lambda c: c.purge_queue("q"), {"name": "q"}),
    ("RestoreQueue", lambda c: c.restore_queue("q", "file"), {"name": "q", "source": "file"}),
    ("ConfigureQueue", lambda c: c.configure_queue("q"), {"name": "q"}),
    ("OpenQueue", lambda c: c.open_queue("q"), {"name": "q"}),
    ("CloseQueue", lambda c: c.close_queue("q"), {"name": "q"}),
    ("CreateAlias", lambda c: c.create_alias("other", "q"), {"alias": "other", "name": "q"}),
    ("DeleteAlias", lambda c: c.delete_alias("other"), {"alias": "other"}),
    ("GetDefaults", lambda c: c.get_defaults("d"), {"domain": "d"}),
    (
        "UpdateDefaults",
        lambda c: c.update_defaults(CONFIG, ["max_length"], domain="d", expected_version=2),
        {"domain": "d", "config": CONFIG, "update_mask": {"paths": ["max_length"]}, "expected_version": 2},
    ),
    ("MoveMessages", lambda c: c.move_messages("q", "r", max_messages=5), {"name": "q", "to": "r", "max_messages": 5}),
    ("RedriveQueue", lambda c: c.redrive_queue("q"), {"name": "q"}),
    ("RedriveQueue", lambda c: c.redrive_queue("q", "r", max_messages=5), {"name": "q", "to": "r", "max_messages": 5}),
]


@pytest.mark.parametrize("row", ADMIN, ids=lambda row: row[0])
async def test_a_call_about_a_queue_says_what_its_caller_said_and_no_more(
    member: FakeMember, row: tuple[str, Callable[[aio.Client], Awaitable[Any]], dict[str, Any]]
) -> None:
    name, call, fields = row
    called = Called(member, admin, "QueueAdminService")
    async with aio.connect(member.endpoint) as client:
        await call(client)
    ((method, request),) = called.seen
    expected = type(request)(**fields)
    if "request_id" in request.DESCRIPTOR.fields_by_name:
        assert len(request.request_id) == 16
        request.ClearField("request_id")
    assert (method, request) == (name, expected)


async def test_a_request_id_of_the_callers_own_is_kept(member: FakeMember) -> None:
    called = Called(member, admin, "QueueAdminService")
    own = b"r" * 16
    async with aio.connect(member.endpoint) as client:
        await client.move_messages("q", "r", request_id=own)
        await client.redrive_queue("q", request_id=own)
        await client.delete_messages("q", "priority = 1", request_id=own)
        await client.restore_queue("q", request_id=own)
    assert [(name, request.request_id) for name, request in called.seen] == [
        ("MoveMessages", own),
        ("RedriveQueue", own),
        ("DeleteMessages", own),
        ("RestoreQueue", own),
    ]


async def test_what_is_counted_is_given_back(member: FakeMember) -> None:
    called = Called(member, admin, "QueueAdminService")
    called.answers = {
        "DeleteQueue": admin.DeleteQueueResponse(removed=3),
        "PurgeQueue": admin.PurgeQueueResponse(removed=4),
        "DestroyReplicatedQueue": admin.DestroyReplicatedQueueResponse(deleted=True),
        "GetQueue": admin.GetQueueResponse(queue=admin.QueueInfo(name="q", length=9)),
    }
    async with aio.connect(member.endpoint) as client:
        assert (await client.delete_queue("q"), await client.purge_queue("q")) == (3, 4)
        assert await client.destroy_replicated_queue("q") is True
        assert (await client.get_queue("q")).length == 9


async def test_weights_are_published_read_and_deleted(member: FakeMember) -> None:
    called = Called(member, weights, "WeightsService")
    table = weights.WeightTable(name="t", version=4, weights=[weights.QueueWeight(queue="q", weight=0.5)], expired=True)
    table.published_by = "job"
    table.computed_from.FromDatetime(AT)
    called.answers["GetWeights"] = weights.GetWeightsResponse(table=table)
    called.answers["ListWeights"] = weights.ListWeightsResponse(tables=[table])
    called.answers["PublishWeights"] = weights.PublishWeightsResponse(version=4)
    async with aio.connect(member.endpoint) as client:
        done = await client.publish_weights(
            "t", {"q": 0.5, "r": 1}, valid_for=timedelta(hours=1), expected_version=0, published_by="job", domain="d"
        )
        await client.publish_weights("t", {"q": 1}, valid_until=AT, computed_from=AT, computed_until=AT)
        found = await client.get_weights("t", domain="d")
        listed = await client.list_weights("d")
        await client.delete_weights("t", expected_version=0, domain="d")
        await client.delete_weights("t")
        for neither in ({}, {"valid_for": timedelta(1), "valid_until": AT}):
            with pytest.raises(ValueError, match="valid_until or valid_for"):
                await client.publish_weights("t", {"q": 1}, **neither)
    assert done.version == 4
    assert (found.name, found.version, found.weights, found.expired) == ("t", 4, {"q": 0.5}, True)
    assert (found.published_by, found.computed_from, found.computed_until, listed) == ("job", AT, None, [found])
    first, second, got, some, checked, unchecked = (request for _, request in called.seen)
    assert [(each.queue, each.weight) for each in first.weights] == [("q", 0.5), ("r", 1.0)]
    assert (first.name, first.domain, first.published_by, first.valid_for.seconds) == ("t", "d", "job", 3_600)
    assert (first.HasField("expected_version"), first.HasField("valid_until")) == (True, False)
    assert (second.HasField("expected_version"), second.HasField("valid_for")) == (False, False)
    assert [each.ToDatetime(UTC) for each in (second.valid_until, second.computed_from, second.computed_until)] == [
        AT
    ] * 3
    assert (got.name, got.domain, some.domain) == ("t", "d", "d")
    assert (checked.name, checked.domain, checked.HasField("expected_version")) == ("t", "d", True)
    assert (unchecked.HasField("expected_version"), len(unchecked.request_id)) == (False, 16)


async def test_a_reader_is_registered_where_its_caller_says(member: FakeMember) -> None:
    called = Called(member, journal, "JournalService")
    async with aio.connect(member.endpoint) as client:
        await client.register_reader("r")
        await client.register_reader("r", at_end=True, ttl=timedelta(hours=1))
        await client.register_reader("r", JournalPosition(7, 3), restart=True, domain="d")
    first, last, placed = (request for _, request in called.seen)
    assert (first.at_end, first.restart) == (False, False)
    assert (first.HasField("position"), first.HasField("ttl")) == (False, False)
    assert (last.at_end, last.HasField("position"), last.ttl.seconds) == (True, False, 3_600)
    assert (placed.at_end, placed.restart, placed.domain) == (False, True, "d")
    assert (placed.position.log_index, placed.position.epoch) == (7, 3)


async def test_a_dequeue_says_what_its_caller_gave_and_nothing_else(member: FakeMember) -> None:
    called = Called(member, queue_service_pb2, "QueueService")
    async with aio.connect(member.endpoint) as client:
        await client.dequeue("q")
        await client.dequeue(
            "q",
            7,
            max_bytes=8,
            wait=2.5,
            lease=timedelta(seconds=9),
            mode="immediate",
            client_id=b"me",
            request_id=b"r" * 16,
            where="a = 1",
        )
    (_, bare), (_, full) = called.seen
    assert (bare.queue, bare.max_messages, bare.max_bytes, len(bare.request_id)) == ("q", 1, 0, 16)
    given = ("wait", "lease_duration", "filter")
    assert [bare.HasField(name) for name in given] == [False] * 3
    assert bare.settle_mode == queue_service_pb2.SETTLE_MODE_UNSPECIFIED
    assert (full.max_messages, full.max_bytes, full.client_id, full.request_id) == (7, 8, b"me", b"r" * 16)
    assert [getattr(full, name).ToTimedelta() for name in given[:2]] == [timedelta(seconds=2.5), timedelta(seconds=9)]
    assert (full.settle_mode, full.filter.selector) == (queue_service_pb2.SETTLE_MODE_IMMEDIATE, "a = 1")


async def test_where_there_is_nothing_to_take_there_is_no_batch(member: FakeMember) -> None:
    Called(member, batches, "BatchService")
    async with aio.connect(member.endpoint) as client:
        assert await client.lease_batch("q", "c", 1) is None


async def test_a_member_that_opens_no_watch_is_left(member: FakeMember) -> None:
    """Afterwards it may be silent for days."""
    asked = 0

    async def silent(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()
        yield b""

    member.answers[QUEUE + "WatchQueues"] = silent
    async with aio.connect(member.endpoint, timeout=0.2) as client:
        with pytest.raises(TandemqError, match="did not open the watch in time"):
            await anext(client.watch("q"))
    assert asked


EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "expired", "shares"),
    [
        ({"a": 1.0, "b": 3.0}, False, {"a": 0.25, "b": 0.75}),
        ({"a": 2.0}, False, {"a": 1.0, "b": 0.0}),
        ({"a": 1.0, "b": 1.0, "another": 2.0}, False, {"a": 0.5, "b": 0.5}),
        ({"a": 1.0, "b": 3.0}, True, None),
        ({"a": 0.0}, False, None),
        ({}, False, None),
        ({}, True, None),
    ],
)
def test_shares_are_of_the_queues_that_are_asked_for_and_of_a_table_that_is_valid(
    given: dict[str, float], expired: bool, shares: dict[str, float] | None
) -> None:
    table = WeightTable("t", 1, given, EPOCH, timedelta(), expired, "me", EPOCH)
    assert table.shares(["a", "b"]) == shares

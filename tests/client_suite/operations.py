"""What a client can do, as operations in three steps: the same on every way, and with a failover in the middle.

`prepare` and `check` run while all is well; between them `act` is one call, or one stream, that must be answered as if
nothing had happened.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tandemq import Outgoing, aio
from tandemq.client.aio import PartlyRefused, ReceivedBatch
from tandemq.client.reactions import Cancel, Change, Custom, MoveTo
from tandemq.client.settling import Act
from tandemq.errors import LeaseLost, TandemqError
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.support.until import until

LONG = timedelta(minutes=5)
WAIT = timedelta(seconds=15)


async def bodies(client: aio.Client, queue: str) -> list[bytes]:
    """What is there, in order of index."""
    return [message.payload async for message in client.browse(queue)]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


class Operation:
    """One thing that a client does. A repetition after a broken connection must not be seen."""

    async def prepare(self, client: aio.Client, queue: str) -> Any:
        """What `act` needs; by default a queue."""
        await client.create_queue(queue)

    async def act(self, client: aio.Client, queue: str, prepared: Any) -> Any:
        raise NotImplementedError

    async def check(self, client: aio.Client, queue: str, prepared: Any, answer: Any) -> None:
        raise NotImplementedError


class Create(Operation):
    async def prepare(self, client: aio.Client, queue: str) -> None:
        assert queue not in [info.name for info in await client.list_queues()]

    async def act(self, client: aio.Client, queue: str, prepared: None) -> admin.QueueInfo:
        return await client.create_queue(queue, admin.QueueConfig(annotation="mine", max_length=7))

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: admin.QueueInfo) -> None:
        info = await client.get_queue(queue)
        for seen in (answer, info):
            assert (seen.name, seen.state, seen.version) == (queue, admin.QUEUE_STATE_OPEN, 1)
            assert (seen.config.annotation, seen.config.max_length) == ("mine", 7)
        assert [each.name for each in await client.list_queues(queue)] == [queue]


class Send(Operation):
    """One message by one call."""

    async def act(self, client: aio.Client, queue: str, prepared: None) -> Any:
        message = Outgoing(b"body", {"priority": 7, "correlation_id": "c", "properties": {"k": 1}})
        return await client.enqueue(queue, [message])

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: Any) -> None:
        [receipt] = answer
        assert receipt.index == 1
        [message] = [message async for message in client.browse(queue)]
        assert (message.payload, message.index, message.id) == (b"body", 1, receipt.id)
        attributes = message.attributes
        assert (attributes["priority"], attributes["correlation_id"], message.properties) == (7, "c", {"k": 1})


class SendMany(Operation):
    """Many messages by one call."""

    async def act(self, client: aio.Client, queue: str, prepared: None) -> Any:
        return await client.enqueue(queue, numbered(200))

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: Any) -> None:
        assert [receipt.index for receipt in answer] == list(range(1, 201))
        assert await bodies(client, queue) == numbered(200)


class Produce(Operation):
    """Many messages over a stream, in batches that are pipelined."""

    async def act(self, client: aio.Client, queue: str, prepared: None) -> Any:
        async with client.producer(queue, max_batch_messages=20) as producer:
            return await producer.send_many(numbered(200))

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: Any) -> None:
        assert [receipt.index for receipt in answer] == list(range(1, 201))
        assert await bodies(client, queue) == numbered(200)


class Filled(Operation):
    """Begins with six messages."""

    async def prepare(self, client: aio.Client, queue: str) -> Any:
        await client.create_queue(queue, admin.QueueConfig(lease_duration={"seconds": 300}))
        await client.enqueue(queue, numbered(6))


class Receive(Filled):
    async def act(self, client: aio.Client, queue: str, prepared: None) -> ReceivedBatch:
        return await client.dequeue(queue, 2)

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: ReceivedBatch) -> None:
        assert [(each.payload, each.index, each.delivery_count) for each in answer] == [(b"0", 1, 1), (b"1", 2, 1)]
        info = await client.get_queue(queue)
        assert (info.length, info.leased, info.ready) == (6, 2, 4)
        await answer.ack()
        assert await bodies(client, queue) == numbered(6)[2:]


class ReceiveAtOnce(Filled):
    """Removed as it is handed over: a repetition gets the same messages, nobody else does."""

    async def act(self, client: aio.Client, queue: str, prepared: None) -> ReceivedBatch:
        return await client.dequeue(queue, 2, mode="immediate")

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: ReceivedBatch) -> None:
        assert [each.payload for each in answer] == [b"0", b"1"]
        assert await bodies(client, queue) == numbered(6)[2:]
        assert [each.payload for each in await client.dequeue(queue, 9)] == numbered(6)[2:]


class WaitFor(Operation):
    """A call that waits is woken by what another client sends."""

    async def act(self, client: aio.Client, queue: str, prepared: None) -> ReceivedBatch:
        waiting = asyncio.ensure_future(client.dequeue(queue, wait=WAIT))
        await asyncio.sleep(0)
        await client.enqueue(queue, [b"here"])
        return await waiting

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: ReceivedBatch) -> None:
        assert [each.payload for each in answer] == [b"here"]
        await answer.ack()
        assert await bodies(client, queue) == []


class Consume(Filled):
    """Over a stream, each one acknowledged. A message whose lease died with its master comes again."""

    async def act(self, client: aio.Client, queue: str, prepared: None) -> list[bytes]:
        done: list[bytes] = []
        async with client.consumer(queue) as consumer:
            async for delivery in consumer:
                try:
                    await delivery.ack_async()
                except LeaseLost:
                    continue
                done.append(delivery.payload)
                if len(set(done)) == 6:
                    break
        return done

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: list[bytes]) -> None:
        assert sorted(set(answer)) == numbered(6)
        assert await bodies(client, queue) == []


class ConsumeGroups(Operation):
    """Each group in order, one message at a time, also when a lease came to nothing."""

    async def prepare(self, client: aio.Client, queue: str) -> None:
        ordered = admin.QueueConfig(group_mode=admin.GROUP_MODE_ORDERED, lease_duration={"seconds": 300})
        await client.create_queue(queue, ordered)
        await client.enqueue(
            queue, [Outgoing(body, {"group_id": f"g{number % 2}"}) for number, body in enumerate(numbered(8))]
        )

    async def act(self, client: aio.Client, queue: str, prepared: None) -> list[bytes]:
        held: dict[str, bytes] = {}
        done: list[bytes] = []
        async with client.consumer(queue) as consumer:
            async for delivery in consumer:
                group = delivery.attributes["group_id"]
                assert held.setdefault(group, delivery.payload) == delivery.payload, "two of one group at once"
                with contextlib.suppress(LeaseLost):
                    await delivery.ack_async()
                    done.append(held.pop(group))
                if len(done) == 8:
                    break
        return done

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: list[bytes]) -> None:
        assert [each for each in answer if int(each) % 2] == numbered(8)[1::2]
        assert [each for each in answer if not int(each) % 2] == numbered(8)[::2]
        assert (await client.get_queue(queue)).length == 0


class Leased(Filled):
    """Begins with two of six messages leased."""

    async def prepare(self, client: aio.Client, queue: str) -> ReceivedBatch:
        await super().prepare(client, queue)
        return await client.dequeue(queue, 2, lease=LONG)

    async def has(self, client: aio.Client, queue: str, length: int, leased: int) -> None:
        info = await client.get_queue(queue)
        assert (info.length, info.leased) == (length, leased)


class Acknowledge(Leased):
    async def act(self, client: aio.Client, queue: str, prepared: ReceivedBatch) -> None:
        await prepared.ack()

    async def check(self, client: aio.Client, queue: str, prepared: ReceivedBatch, answer: None) -> None:
        await self.has(client, queue, 4, 0)
        assert await bodies(client, queue) == numbered(6)[2:]


class Release(Leased):
    async def act(self, client: aio.Client, queue: str, prepared: ReceivedBatch) -> None:
        await prepared.release()

    async def check(self, client: aio.Client, queue: str, prepared: ReceivedBatch, answer: None) -> None:
        await self.has(client, queue, 6, 0)
        again = await client.dequeue(queue, 2)
        assert [(each.payload, each.delivery_count) for each in again] == [(b"0", 1), (b"1", 1)], "at its old place"


class Reject(Leased):
    async def act(self, client: aio.Client, queue: str, prepared: ReceivedBatch) -> None:
        await prepared.reject("no good")

    async def check(self, client: aio.Client, queue: str, prepared: ReceivedBatch, answer: None) -> None:
        again = await client.dequeue(queue, 9)
        assert [each.payload for each in again] == numbered(6)[2:], "nobody gets it here any more"


class Extend(Leased):
    async def act(self, client: aio.Client, queue: str, prepared: ReceivedBatch) -> None:
        await prepared.extend(LONG)

    async def check(self, client: aio.Client, queue: str, prepared: ReceivedBatch, answer: None) -> None:
        await self.has(client, queue, 6, 2)
        assert [each.payload for each in await client.dequeue(queue, 9)] == numbered(6)[2:]
        await prepared.ack()


class SettleInParts(Leased):
    """Some of a lease one way, some another, by one call."""

    async def act(self, client: aio.Client, queue: str, prepared: ReceivedBatch) -> list[Any]:
        one = [(Act(prepared.lease_id, service.OUTCOME_ACK), [(1, 1)])]
        other = [(Act(prepared.lease_id, service.OUTCOME_RELEASE), [(2, 1)])]
        return await client.settle(queue, [*one, *other])

    async def check(self, client: aio.Client, queue: str, prepared: ReceivedBatch, answer: list[Any]) -> None:
        assert answer == []
        assert await bodies(client, queue) == numbered(6)[1:]
        await self.has(client, queue, 5, 0)


class Browse(Filled):
    async def act(self, client: aio.Client, queue: str, prepared: None) -> list[bytes]:
        return await bodies(client, queue)

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: list[bytes]) -> None:
        assert answer == numbered(6)
        part = [message.payload async for message in client.browse(queue, from_index=3, max_messages=2)]
        assert part == [b"2", b"3"]
        info = await client.get_queue(queue)
        assert (info.length, info.leased) == (6, 0), "looking changes nothing"


class Purge(Leased):
    async def act(self, client: aio.Client, queue: str, prepared: ReceivedBatch) -> int:
        return await client.purge_queue(queue)

    async def check(self, client: aio.Client, queue: str, prepared: ReceivedBatch, answer: int) -> None:
        assert answer == 4
        await self.has(client, queue, 2, 2)


class Move(Leased):
    async def prepare(self, client: aio.Client, queue: str) -> ReceivedBatch:
        await client.create_queue(f"{queue}-to")
        return await super().prepare(client, queue)

    async def act(self, client: aio.Client, queue: str, prepared: ReceivedBatch) -> admin.MoveMessagesResponse:
        return await client.move_messages(queue, f"{queue}-to", max_messages=3)

    async def check(
        self, client: aio.Client, queue: str, prepared: ReceivedBatch, answer: admin.MoveMessagesResponse
    ) -> None:
        assert (answer.moved, answer.left, answer.leased) == (3, 0, 2)
        assert await bodies(client, f"{queue}-to") == numbered(6)[2:5]
        await self.has(client, queue, 3, 2)


class DeleteSome(Leased):
    async def act(self, client: aio.Client, queue: str, prepared: ReceivedBatch) -> admin.DeleteMessagesResponse:
        return await client.delete_messages(queue, "tq_index <> 4")

    async def check(
        self, client: aio.Client, queue: str, prepared: ReceivedBatch, answer: admin.DeleteMessagesResponse
    ) -> None:
        assert (answer.removed, answer.leased) == (3, 2)
        assert await bodies(client, queue) == [b"0", b"1", b"3"]


class Redrive(Filled):
    """Dead letters go back to where they came from, as they were sent."""

    async def prepare(self, client: aio.Client, queue: str) -> None:
        await super().prepare(client, queue)
        await client.create_queue(f"{queue}.dead", admin.QueueConfig(dead_letter_queue=""))
        await (await client.dequeue(queue, 6)).reject("no good")

        async def dead() -> bool:
            return len(await bodies(client, f"{queue}.dead")) == 6  # what can be seen is on both members

        await until(dead, "they are dead letters")

    async def act(self, client: aio.Client, queue: str, prepared: None) -> admin.RedriveQueueResponse:
        return await client.redrive_queue(f"{queue}.dead")

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: admin.RedriveQueueResponse) -> None:
        assert (answer.moved, answer.left, answer.leased) == (6, 0, 0)
        assert await bodies(client, f"{queue}.dead") == []
        again = await client.dequeue(queue, 9)
        assert [(each.payload, each.delivery_count, each.properties) for each in again] == [
            (payload, 1, {}) for payload in numbered(6)
        ]


class Reactive(Operation):
    """Six messages, of which a consumer has the first two."""

    async def prepare(self, client: aio.Client, queue: str) -> None:
        for name in (queue, f"{queue}-aside"):
            await client.create_queue(name, admin.QueueConfig(reactions_enabled=True))
        await client.enqueue(queue, numbered(6))
        assert len(await client.dequeue(queue, 2, lease=LONG)) == 2

    async def react(self, client: aio.Client, queue: str, action: Cancel | Change | MoveTo) -> tuple[int, int]:
        done = await client.react(queue, "tq_index < 5", action, everything=True)
        return done.applied, done.locked


class CancelSome(Reactive):
    async def act(self, client: aio.Client, queue: str, prepared: None) -> tuple[int, int]:
        return await self.react(client, queue, Cancel())

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: tuple[int, int]) -> None:
        assert answer == (2, 2)
        assert await bodies(client, queue) == [b"0", b"1", b"4", b"5"]


class PutAside(Reactive):
    async def act(self, client: aio.Client, queue: str, prepared: None) -> tuple[int, int]:
        return await self.react(client, queue, MoveTo(f"{queue}-aside"))

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: tuple[int, int]) -> None:
        assert answer == (2, 2)
        assert await bodies(client, queue) == [b"0", b"1", b"4", b"5"]
        assert await bodies(client, f"{queue}-aside") == [b"2", b"3"]


class Correct(Reactive):
    async def act(self, client: aio.Client, queue: str, prepared: None) -> tuple[int, int]:
        return await self.react(client, queue, Change(b"new"))

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: tuple[int, int]) -> None:
        assert answer == (2, 2)
        assert await bodies(client, queue) == [b"0", b"1", b"4", b"5", b"new", b"new"]


class Scatter(Reactive):
    """At two queues by one call; of the first one two are leased."""

    async def prepare(self, client: aio.Client, queue: str) -> None:
        await super().prepare(client, queue)
        await client.enqueue(f"{queue}-aside", numbered(3))

    async def act(self, client: aio.Client, queue: str, prepared: None) -> list[tuple[str, int, int]]:
        queues = [queue, f"{queue}-aside"]
        done = await client.react(queues, "tq_index < 5", Change(b"new"), everything=True)
        return [(home.queue, home.applied, home.locked) for home in done.homes]

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: list[tuple[str, int, int]]) -> None:
        assert answer == [(queue, 2, 2), (f"{queue}-aside", 3, 0)]
        assert await bodies(client, queue) == [b"0", b"1", b"4", b"5", b"new", b"new"]
        assert await bodies(client, f"{queue}-aside") == [b"new"] * 3


class AskProgram(Operation):
    """Of two messages its answer is carried out, once."""

    async def prepare(self, client: aio.Client, queue: str) -> None:
        await client.create_queue(queue, admin.QueueConfig(reactions_enabled=True))
        for price in (50, 0):
            await client.send(queue, b"box", properties={"price": price})

    async def act(self, client: aio.Client, queue: str, prepared: None) -> tuple[int, int, int]:
        done = await client.react(queue, "price >= 0", Custom("discount", b"10"), everything=True)
        return done.applied, done.left, done.failed

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: tuple[int, int, int]) -> None:
        assert answer == (2, 0, 0)
        assert [message.properties["price"] async for message in client.browse(queue)] == [45]


class UnitOfWork(Operation):
    """One message is taken, and two are sent because of it. Where the master dies in the middle it is done again."""

    async def prepare(self, client: aio.Client, queue: str) -> None:
        for name in (queue, f"{queue}-legs"):
            await client.create_queue(name)
        await client.enqueue(queue, numbered(2))

    async def work(self, unit: aio.Unit, queue: str) -> bytes:
        (taken,) = await unit.dequeue(queue, wait=WAIT)
        await unit.enqueue(f"{queue}-legs", [b"out", b"back"])
        return taken.payload


class Committed(UnitOfWork):
    async def act(self, client: aio.Client, queue: str, prepared: None) -> bytes:
        return await client.in_unit(lambda unit: self.work(unit, queue))

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: bytes) -> None:
        assert answer == b"0"
        assert await bodies(client, queue) == [b"1"]
        assert await bodies(client, f"{queue}-legs") == [b"out", b"back"]


class RolledBack(UnitOfWork):
    async def act(self, client: aio.Client, queue: str, prepared: None) -> bytes:
        async def fails(unit: aio.Unit) -> None:
            raise KeyError(await self.work(unit, queue))

        try:
            await client.in_unit(fails)
        except KeyError as error:
            payload: bytes = error.args[0]
            return payload
        raise AssertionError("what its work raised is gone")

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: bytes) -> None:
        assert answer == b"0"
        (taken,) = await client.dequeue(queue, wait=WAIT)
        assert (taken.payload, await bodies(client, f"{queue}-legs")) == (b"0", [])


class Answer(Operation):
    """One answer to a request that names a queue for it: there is one, and one copy of it."""

    async def prepare(self, client: aio.Client, queue: str) -> tuple[aio.Handle, ReceivedBatch]:
        await client.create_queue(f"{queue}-answers")
        await client.create_queue(queue, admin.QueueConfig(queue_type=admin.QUEUE_TYPE_TWO_WAY))
        handle = await client.send(queue, b"request", reply_to=f"{queue}-answers", correlation_id="mine")
        return handle, await client.dequeue(queue, lease=LONG)

    async def act(self, client: aio.Client, queue: str, prepared: tuple[aio.Handle, ReceivedBatch]) -> None:
        got = prepared[1]
        await client.reply(queue, got.lease_id, got[0].index, b"answer")

    async def check(
        self, client: aio.Client, queue: str, prepared: tuple[aio.Handle, ReceivedBatch], answer: None
    ) -> None:
        completion = await prepared[0].check()
        assert completion.reply is not None
        assert completion.reply.payload == b"answer"
        copies = [message async for message in client.browse(f"{queue}-answers")]
        assert [(copy.payload, copy.attributes["correlation_id"]) for copy in copies] == [(b"answer", "mine")]
        assert copies[0].properties["tq_reply_of"] == prepared[0].value


class Update(Filled):
    async def act(self, client: aio.Client, queue: str, prepared: None) -> admin.QueueInfo:
        config = admin.QueueConfig(max_length=6, annotation="full")
        return await client.update_queue(queue, config, ["max_length", "annotation"], expected_version=1)

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: admin.QueueInfo) -> None:
        for seen in (answer, await client.get_queue(queue)):
            assert (seen.version, seen.config.max_length, seen.config.annotation) == (2, 6, "full")
        assert await reasons(client.enqueue(queue, [b"x"])) == ["QUEUE_FULL"], "in force at once"


class Delete(Filled):
    async def act(self, client: aio.Client, queue: str, prepared: None) -> int:
        return await client.delete_queue(queue)

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: int) -> None:
        assert answer == 6
        assert await reasons(client.get_queue(queue)) == ["QUEUE_NOT_FOUND"]
        assert (await client.create_queue(queue)).length == 0, "its name is free at once"
        assert [receipt.index for receipt in await client.enqueue(queue, [b"x"])] == [1]


class BeRefused(Filled):
    """Every kind of refusal says the same wherever it is made."""

    async def act(self, client: aio.Client, queue: str, prepared: None) -> list[str]:
        none = f"{queue}-none"
        calls = [
            client.enqueue(none, [b"x"]),
            client.dequeue(none),
            client.get_queue(none),
            client.create_queue(queue),
            client.create_queue("no name"),
            client.create_queue(f"{queue}-bad", admin.QueueConfig(max_length=0)),
            client.update_queue(queue, admin.QueueConfig(), ["domain"]),
            client.update_queue(queue, admin.QueueConfig(annotation="x"), ["annotation"], expected_version=9),
            client.delete_queue(queue, if_empty=True),
            client.enqueue(queue, [b"x" * ((1 << 20) + 1)]),
            client.enqueue(queue, [b"x"], request_id=b"short"),
            client.move_messages(queue, none),
            client.move_messages(queue, queue),
            client.redrive_queue(none),
            client.delete_messages(queue, ""),
        ]
        return [reason for call in calls for reason in await reasons(call)]

    async def check(self, client: aio.Client, queue: str, prepared: None, answer: list[str]) -> None:
        assert answer == [
            *("QUEUE_NOT_FOUND", "QUEUE_NOT_FOUND", "QUEUE_NOT_FOUND", "QUEUE_EXISTS", "BAD_NAME", "BAD_ATTRIBUTE"),
            *("READ_ONLY", "VERSION_MISMATCH", "NOT_EMPTY", "MESSAGE_TOO_LARGE", "BAD_REQUEST"),
            *("QUEUE_NOT_FOUND", "BAD_REQUEST", "QUEUE_NOT_FOUND", "BAD_REQUEST"),
        ]
        assert await bodies(client, queue) == numbered(6), "nothing was half done"
        assert (await client.get_queue(queue)).version == 1


async def reasons(call: Any) -> Sequence[str]:
    """Why a call was refused, by entry where entries were."""
    try:
        await call
    except PartlyRefused as error:
        return [each.reason for each in error.receipts.errors.values()]
    except TandemqError as error:
        return [error.reason]
    return []


OPERATIONS: dict[str, Operation] = {
    kind.__name__: kind()
    for kind in (
        *(Create, Send, SendMany, Produce, Receive, ReceiveAtOnce, WaitFor, Consume, ConsumeGroups),
        *(Acknowledge, Release, Reject, Extend, SettleInParts, Browse, Purge, Update, Delete, BeRefused),
        *(Move, DeleteSome, Redrive, Answer, CancelSome, PutAside, Correct, Scatter, AskProgram, Committed, RolledBack),
    )
}

"""Simulated administrators: one makes the queues before all else, one hands the mastership over, one changes the
persistence of a queue that others use, one owns a queue: it fills, purges, deletes and makes it again.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING

import grpc

from chaos.history import Handed, Message
from chaos.sim.clients.base import QUEUE, SimClient, number_of
from chaos.sim.judges.macro_points import MACRO
from chaos.sim.judges.sides import SIDED
from chaos.sim.kernel.rpc import Channel
from chaos.sim.pair.books import Change, message_of, payload_of
from chaos.sim.pair.plan import Call, ClientPlan
from tandemq.client.calls import PAIR_SERVICE
from tandemq.client.macros import MacroPolicy, Relationship
from tandemq.errors import TandemqError, Unreachable, from_rpc_error
from tandemq.v1 import pair_service_pb2 as pair
from tandemq.v1 import queue_admin_service_pb2 as admin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandemq import aio

PERSISTENCE = MappingProxyType(
    {
        "persistent": admin.PERSISTENCE_PERSISTENT,
        "volatile": admin.PERSISTENCE_VOLATILE,
        "conditional": admin.PERSISTENCE_CONDITIONAL,
        "changed": admin.PERSISTENCE_VOLATILE,
    }
)
"""Of a mode, and of a kind of queue when it is made."""
HANDOFF_S = 8.0


def with_setup(plans: Sequence[ClientPlan]) -> tuple[ClientPlan, ...]:
    """The plans, with one that makes the usual queue where none makes any."""
    if any(plan.role == "setup" for plan in plans):
        return tuple(plans)
    return (ClientPlan("setup", "setup", (Call(0, "create", {"queue": QUEUE}),)), *plans)


def _more_of(call: Call) -> admin.QueueConfig:
    """Attributes that the plan names."""
    config, args = admin.QueueConfig(), call.args
    if args.get("two_way"):
        config.queue_type = admin.QUEUE_TYPE_TWO_WAY
    if args.get("asked"):
        config.queue_type = admin.QUEUE_TYPE_ONE_WAY_ACK
    if args.get("reactive"):
        config.reactions_enabled = True
    if args.get("ordered"):
        config.group_mode = admin.GROUP_MODE_ORDERED
    if args.get("complete"):
        config.group_mode = admin.GROUP_MODE_COMPLETE
    if "letters" in args:
        config.dead_letter_queue = str(args["letters"])
    if "holds" in args:
        config.max_length = number_of(call, "holds")
    if "drops_at" in args:
        config.overflow, config.max_length = admin.OVERFLOW_DROP_HEAD, number_of(call, "drops_at")
    for name in ("reply_timeout", "retry_delay_min", "retry_delay_max", "dedup_window", "group_timeout"):
        if f"{name}_ms" in args:
            getattr(config, name).FromMilliseconds(number_of(call, f"{name}_ms"))
    return config


class Setup(SimClient):
    """Makes the queues, before any other client begins."""

    async def work(self, client: aio.Client) -> None:
        for call in self.calls:
            if call.kind == MACRO:
                await self._make_macro(client, call)
                continue
            if call.kind == "proxy":
                self.counted(call)
                await client.create_proxy(str(call.args["queue"]), str(call.args["target"]))
                continue
            name, kind = str(call.args["queue"]), str(call.args.get("kind", "plain"))
            config = admin.QueueConfig(require_two=kind == "two", max_deliveries=number_of(call, "max_deliveries"))
            if kind in PERSISTENCE:
                config.persistence = PERSISTENCE[kind]
            if kind == "ordered":
                config.group_mode = admin.GROUP_MODE_ORDERED
            if kind == SIDED:
                config.replication = admin.REPLICATION_PRODUCER
                config.lockstep = admin.LOCKSTEP_SELECTED if call.args.get("selected") else admin.LOCKSTEP_PLAIN
            config.MergeFrom(_more_of(call))
            self.counted(call)
            await client.create_queue(name, config)
            self.run.books[name].kind = kind

    async def _make_macro(self, client: aio.Client, call: Call) -> None:
        name, args = str(call.args["queue"]), call.args
        self.counted(call)
        relationship = Relationship.PRODUCER if args["producer"] else Relationship.CONSUMER
        await client.create_macro(name, relationship=relationship, policy=MacroPolicy(str(args["policy"])))
        members, priorities = str(args["members"]).split(), str(args["priorities"]).split()
        for member, priority in zip(members, priorities, strict=True):
            await client.add_macro_member(name, member, priority=int(priority))
        self.run.books[name].kind = MACRO


class Admin(SimClient):
    """Orders the mastership over, at either member; looks at queues."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            self.at += 1  # an order that died with its admin is not given again
            await self.due(call)
            self.counted(call)
            if call.kind == "handoff":
                via = str(call.args.get("via", "a"))
                asked = ("a", "b") if via == "both" else (via,)
                await asyncio.gather(*(self._hand_over(each, call) for each in asked))
            else:
                await client.list_queues()

    async def _hand_over(self, via: str, call: Call) -> None:
        channel = Channel(self.run.network, self.plan.name, self.pair.endpoint(via))
        dry_run = bool(call.args.get("dry_run", False))
        request = pair.HandoffRequest(dry_run=dry_run, reason="the plan")
        asked_s = self.now_s
        ask = channel.unary_unary(
            PAIR_SERVICE + "Handoff",
            request_serializer=pair.HandoffRequest.SerializeToString,
            response_deserializer=pair.HandoffResponse.FromString,
        )
        self.run.count("handoffs")
        try:
            answer: pair.HandoffResponse = await ask(request, timeout=HANDOFF_S)
        except grpc.aio.AioRpcError as error:
            failure = from_rpc_error(error)
            if not isinstance(failure, Unreachable) and not failure.retryable:
                self.run.count(f"handoff refused.{failure.reason}")
            return
        finally:
            await channel.close()
        if answer.done and not dry_run:
            self.run.count("handoffs.done")
        is_known = bool(answer.master or not answer.done)  # who is master, if anybody knows yet
        if answer.handoff_id and not dry_run and is_known:
            self.run.history.handed.append(
                Handed(
                    asked_s, self.now_s, answer.handoff_id, answer.done, answer.master, answer.epoch,
                    tuple(answer.reasons),
                )
            )  # fmt: skip


class Changer(SimClient):
    """The only one who changes the persistence of a queue; others fill and empty it meanwhile."""

    async def work(self, client: aio.Client) -> None:
        for call in self.calls:
            await self.due(call)
            self.counted(call)
            await self._change(client, Change(self.now_s, str(call.args["mode"])))

    async def _change(self, client: aio.Client, change: Change) -> None:
        config = admin.QueueConfig(persistence=PERSISTENCE[change.mode])
        before = await client.get_queue(self.queue)
        change.asked_s = self.now_s
        self.book.changes.append(change)
        try:
            info = await client.update_queue(self.queue, config, ["persistence"])
        except TandemqError as error:
            self.expects(error)
            if error.definite:
                self.book.changes.remove(change)
            return
        change.answered_s = self.now_s
        if before.volatile_length and info.length and not info.volatile_length:
            self.run.sometimes("volatile messages made persistent")


class Owner(SimClient):
    """The only client of one queue: does one thing after the other, and knows at every moment what must be in it."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # handed on
        self.kept: dict[int, Message] = {}
        self.next_index = 0
        """0: there is no queue."""
        self.number = 0
        self.deleted = False
        """Once, by this owner."""

    async def work(self, client: aio.Client) -> None:
        for call in self.calls:
            await self.due(call)
            self.counted(call)
            await self._do(client, call)
        if self.next_index:
            await client.delete_queue(self.queue)

    async def _do(self, client: aio.Client, call: Call) -> None:
        if call.kind != "create" and not self.next_index:
            return
        match call.kind:
            case "create":
                if not self.next_index:
                    info = await client.create_queue(self.queue)
                    self.next_index = 1
                    if self.deleted:
                        self.run.sometimes("a queue deleted, and made again")
                    self._require(not info.length and not info.last_index, f"a new queue holds {info.length}")
            case "enqueue":
                await self._enqueue(client, number_of(call, "count", 1))
            case "take":
                batch = await client.dequeue(self.queue, number_of(call, "max", 1))
                given = {each.index: message_of(each.payload) for each in batch}
                first = dict(list(self.kept.items())[: len(given)])
                self._require(given == first and bool(given or not self.kept), f"gave {given}, holds {self.kept}")
                await batch.ack()
                for index in given:
                    del self.kept[index]
            case "purge":
                removed = await client.purge_queue(self.queue)
                self._require(removed == len(self.kept), f"purged {removed} of {len(self.kept)}")
                self.kept.clear()
            case "delete":
                removed = await client.delete_queue(self.queue)
                self._require(removed == len(self.kept), f"deleted {removed} of {len(self.kept)}")
                self.kept.clear()
                self.next_index = 0
                self.deleted = True
            case _:
                seen = {each.index: message_of(each.payload) async for each in client.browse(self.queue)}
                self._require(seen == self.kept, f"shows {seen}, holds {self.kept}")

    async def _enqueue(self, client: aio.Client, count: int) -> None:
        messages = [Message(int(self.plan.args["number"]), self.number + place) for place in range(count)]
        self.number += count
        try:
            receipts = await client.enqueue(self.queue, [payload_of(message) for message in messages])
        except TandemqError as error:
            self.expects(error)
            if not error.definite:
                self.run.count("unknown", count)
                self.next_index = await self._look_again(client)
            return
        wanted = list(range(self.next_index, self.next_index + count))
        self._require([receipt.index for receipt in receipts] == wanted, f"gave {list(receipts)}, not {wanted}")
        self.kept.update(zip(wanted, messages, strict=True))
        self.next_index += count

    async def _look_again(self, client: aio.Client) -> int:
        """What happened is unknown: the queue says."""
        self.kept = {each.index: message_of(each.payload) async for each in client.browse(self.queue)}
        return (await client.get_queue(self.queue)).last_index + 1

    def _require(self, holds: bool, text: str) -> None:
        if not holds:
            self.run.violation("a queue is its owner's alone", f"{self.queue}: {text}")

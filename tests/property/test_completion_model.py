"""Random histories of a queue whose senders are told how messages end, against a dictionary that says how.

After each step the machine, its replica and the dictionary agree on every message, and what has ended stays as it is
until it is forgotten.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from replica.machine import CopyCall, Machine, ReplyCall, columns_of
from replica.machine.plan.copies import plan_copies
from replica.machine.plan.reply import plan_reply
from replica.machine.plan.reply_copies import is_addressed, owed_of
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_PURGE
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import ACK, MEMBERS, REJECT, RELEASE, Driver, batch_of

RETENTION_MS, REPLY_MS, LEASE_MS, TTL_MS = 20_000, 8_000, 3_000, 5_000
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["send", "send", "lease", "lease", "settle", "settle", "reply", "pay", "purge", "pass", "pass", "copy"]
        ),
        st.integers(0, 1 << 16),
    ),
    min_size=5,
    max_size=40,
)


class History:
    """What the dictionary says: index to (how it ended, when), `pending` while it has not."""

    def __init__(self, *, two_way: bool) -> None:
        self.two_way = two_way
        self.driver = Driver()
        kind = admin_pb2.QUEUE_TYPE_TWO_WAY if two_way else admin_pb2.QUEUE_TYPE_ONE_WAY_ACK
        config: dict[str, Any] = {"lease_duration": {"seconds": 3}, "reply_timeout": {"seconds": 8}}
        config |= {"completion_retention": {"seconds": 20}, "max_deliveries": 0, "dead_letter_queue": ""}
        self.driver.create(queue_type=kind, **config)
        self.driver.create("r")
        self.addressed: set[int] = set()
        """Requests that name r for a copy of their answer."""
        self.paid: list[int] = []
        self.known: dict[int, tuple[str, int]] = {}
        self.sent_at: dict[int, tuple[int, bool]] = {}
        self.leases: dict[int, set[int]] = {}
        self.ends: dict[int, int] = {}

    def step(self, what: str, number: int) -> None:
        getattr(self, "on_" + what)(number)
        self.on_time()
        expected = [self.expected(index) for index in self.known]
        assert self.driver.finals(*self.known) == expected
        machine = self.driver.master
        open_ = {index for index in self.addressed if self.known[index][0] == "pending"}
        assert {index for index in self.known if is_addressed(machine.queue(1), index)} == open_
        assert set(owed_of(machine.state, 1).get("r", ())) == self.owed()
        assert tuple(machine.state.owing) == ((1,) if self.owed() else ())
        assert len(self.driver.browse("r")) == len(self.paid)

    def owed(self) -> set[int]:
        """What was answered, is kept, and was not copied."""
        return {index for index in self.addressed if self.expected(index) == "replied"} - set(self.paid)

    def expected(self, index: int) -> str:
        how, ended = self.known[index]
        second_over = (ended // 1_000 + 1) * 1_000
        return "unknown" if how != "pending" and self.driver.now_ms >= second_over + RETENTION_MS else how

    def finish(self, index: int, how: str, at_ms: int | None = None) -> None:
        assert self.known[index][0] == "pending"
        self.known[index] = how, self.driver.now_ms if at_ms is None else at_ms
        for held in self.leases.values():
            held.discard(index)

    def held(self) -> set[int]:
        return {index for indexes in self.leases.values() for index in indexes}

    def on_send(self, number: int) -> None:
        timed = number % 3 == 0
        batch = batch_of([1] * (1 + number % 4), ttls_ms=[TTL_MS if timed else 0])
        names = ["r" if self.two_way and (number >> place) % 2 else "" for place in range(1 + number % 4)]
        if number % 2:
            batch.messages.reply_tos.extend(names)
        op = self.driver.enqueue(batch)
        if number % 2:
            self.addressed |= {op.first_index + place for place, name in enumerate(names) if name}
        for index in range(op.first_index, op.first_index + op.count):
            self.known[index] = "pending", 0
            self.sent_at[index] = self.driver.now_ms, timed

    def on_lease(self, number: int) -> None:
        immediate = not self.two_way and number % 4 == 0
        lease_id, indexes = self.driver.lease(1 + number % 5, immediate=immediate)
        for index in indexes:
            assert index not in self.held()
            if immediate:
                self.finish(index, "consumed")
        if lease_id:
            self.leases[lease_id] = set(indexes)
            self.ends[lease_id] = self.driver.now_ms + LEASE_MS

    def on_settle(self, number: int) -> None:
        for lease_id, indexes in self.leases.items():
            if indexes:
                index = sorted(indexes)[number % len(indexes)]
                outcome = (ACK, REJECT, RELEASE)[number % 3]
                result = self.driver.outcome(outcome, lease_id, (index, index))
                if outcome == ACK and self.two_way:
                    assert not result.settled
                elif outcome == RELEASE:
                    indexes.discard(index)
                else:
                    self.finish(index, "consumed" if outcome == ACK else "rejected")
                return

    def on_reply(self, number: int) -> None:
        for lease_id, indexes in self.leases.items():
            if indexes and self.two_way:
                index = sorted(indexes)[number % len(indexes)]
                header = plan_reply(
                    self.driver.master.state, self.driver.now_ms, ReplyCall("q", lease_id, index, 1, request_hash=index)
                )
                assert header is not None
                header.reply.reply_to = "r" if is_addressed(self.driver.master.queue(1), index) else ""
                self.driver.order(header)
                assert self.driver.reply(lease_id, index, request_hash=index) is None
                self.finish(index, "replied")
                return

    def on_pay(self, number: int) -> None:
        indexes = sorted(self.owed())[: 1 + number % 3]
        if indexes:
            columns = columns_of(batch_of([1] * len(indexes), queue="r"))
            call = CopyCall(1, "r", indexes, columns)
            self.driver.order(self.driver.plan(lambda: plan_copies(self.driver.master.state, self.driver.now_ms, call)))
            self.paid += indexes

    def on_purge(self, number: int) -> None:
        if number % 3 == 0:
            self.driver.queue(QUEUE_ACTION_PURGE)
            for index, (how, _) in list(self.known.items()):
                if how == "pending" and index not in self.held():
                    self.finish(index, "purged")

    def on_copy(self, _number: int) -> None:
        """The replica begins anew from a snapshot; they stay equal from there on."""
        self.driver.replica = Machine.restore(self.driver.master.snapshot(), MEMBERS, self.driver.limits)

    def on_pass(self, number: int) -> None:
        self.driver.now_ms += number % 4_000

    def on_time(self) -> None:
        self.driver.expire()
        now = self.driver.now_ms
        # What is due in one record ends in this order: messages, leases, requests.
        for index, (how, _) in list(self.known.items()):
            sent_ms, timed = self.sent_at[index]
            if how == "pending" and timed and now >= sent_ms + TTL_MS and index not in self.held():
                self.finish(index, "expired")
        for lease_id, until_ms in list(self.ends.items()):
            if now > until_ms:
                self.leases.pop(lease_id, None)
                del self.ends[lease_id]
        for index, (how, _) in list(self.known.items()):
            sent_ms, timed = self.sent_at[index]
            if how == "pending" and self.two_way and now >= sent_ms + REPLY_MS:
                self.finish(index, "reply_timeout")
            elif how == "pending" and timed and now >= sent_ms + TTL_MS and index not in self.held():
                self.finish(index, "expired")


@settings(max_examples=150, deadline=None)
@given(STEPS, st.booleans())
def test_every_message_ends_once_and_as_it_is_told(steps: list[tuple[str, int]], two_way: bool) -> None:
    history = History(two_way=two_way)
    for what, number in steps:
        history.step(what, number)

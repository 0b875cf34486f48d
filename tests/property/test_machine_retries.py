"""Every call may come again, on any member, after any time: one effect, the first answer, or DEDUP_EXPIRED when it is
older than what is promised. The limits are small here, so that things are forgotten all the time.

Beside it: the state is the fold of the log, from the beginning and from any snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from replica.machine import Limits, Machine, Refused, Repeated
from replica.machine.rows import snapshot
from replica.machine.state import dedup, requests
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.support import profiles
from tests.unit.replica.machine.driver import MEMBERS, Driver, batch_of, indexes_of, ranges_of

NAMES = ("q", "r")
queues = st.sampled_from(("q", "q", "q", "r"))
clients = st.sampled_from((b"one", b"one", b"one", b"two", b"three"))
WINDOW_MS = 5_000
LIMITS = Limits(dedup_sequences=6, dedup_window_ms=WINDOW_MS, dedup_producers_max=2, dedup_rows_max=12, requests_kept=4)
CHUNK_ROWS = 2


class Sent(NamedTuple):
    """A batch of a stream that was executed."""

    queue: str
    client_id: bytes
    first_sequence: int
    batch: Any
    request_hash: int
    at_ms: int
    log_index: int
    epoch: int
    first_index: int


class Asked(NamedTuple):
    """A unary call that was executed."""

    request_id: bytes
    request_hash: int
    at_ms: int
    number: int
    kind: str
    log_index: int
    answer: Any


class Retries(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rows_kept, dedup.CHUNK_ROWS = dedup.CHUNK_ROWS, CHUNK_ROWS
        self.driver = Driver(LIMITS)
        self.sent: list[Sent] = []
        self.asked: list[Asked] = []
        self.last: dict[tuple[str, bytes], int] = {}
        self.snapshots: list[tuple[int, bytes]] = []
        self.calls = 0

    @initialize()
    def begin(self) -> None:
        for name in NAMES:
            self.driver.create(name)

    # -- streams ---------------------------------------------------------------------------------------------------

    @rule(queue=queues, client=clients, counts=st.lists(st.integers(1, 4), min_size=1, max_size=12))
    def send_some(self, queue: str, client: bytes, counts: list[int]) -> None:
        for count in counts:
            self.send(queue, client, count)

    def send(self, queue: str, client: bytes, count: int) -> None:
        driver, first = self.driver, self.last.get((queue, client), 0) + 1
        batch = batch_of([len(self.sent)] * count, queue=queue)
        request_hash = len(self.sent) + 1
        try:
            plan = driver.plan_enqueue(batch, client_id=client, first_sequence=first, request_hash=request_hash)
        except Refused as refused:
            self.is_reason(refused, common_pb2.REASON_DEDUP_EXPIRED)
            assert self.may_be_forgotten(queue, client), "a producer in use was forgotten"
            self.last[queue, client] = 0  # it goes on under the same id, at its own risk
            self.sent = [sent for sent in self.sent if (sent.queue, sent.client_id) != (queue, client)]
            return
        driver.order(plan.header)
        self.last[queue, client] = first + count - 1
        place = (driver.log_index, driver.epoch, plan.header.enqueue.first_index)
        self.sent.append(Sent(queue, client, first, batch, request_hash, driver.now_ms, *place))

    @staticmethod
    def is_reason(refused: Refused, reason: int) -> None:
        assert refused.reason == reason, refused

    def may_be_forgotten(self, queue: str, client: bytes) -> bool:
        """A whole producer: it has sent nothing for the window."""
        times = [sent.at_ms for sent in self.sent if (sent.queue, sent.client_id) == (queue, client)]
        return max(times, default=0) < self.driver.now_ms - WINDOW_MS

    @rule(data=st.data(), changed=st.booleans())
    def send_again(self, data: Any, changed: bool) -> None:
        if not self.sent:
            return
        sent = data.draw(st.sampled_from(self.sent))
        count = len(sent.batch.messages.payloads)
        last = self.last[sent.queue, sent.client_id]
        request_hash = sent.request_hash + changed
        old = sent.at_ms < self.driver.now_ms - WINDOW_MS and sent.first_sequence + count <= last - 6 + 1
        try:
            plan = self.driver.plan_enqueue(
                sent.batch, client_id=sent.client_id, first_sequence=sent.first_sequence, request_hash=request_hash
            )
        except Refused as refused:
            if refused.reason == common_pb2.REASON_REQUEST_MISMATCH:
                self.is_reason(refused, common_pb2.REASON_REQUEST_MISMATCH if changed else 0)
            else:
                self.is_reason(refused, common_pb2.REASON_DEDUP_EXPIRED)
                assert old or self.may_be_forgotten(sent.queue, sent.client_id), "forgotten too soon"
            return
        if not isinstance(plan, Repeated):
            # Of a producer that nobody remembers, only the beginning looks like something new.
            forgotten = self.may_be_forgotten(sent.queue, sent.client_id)
            assert forgotten, "a sequence was executed twice"
            assert sent.first_sequence == 1, "a sequence was executed twice"
            return
        assert not changed, "other content passes for a repetition"
        found = sent.first_index, sent.log_index, sent.epoch
        assert plan.run == (sent.first_sequence, count, *found, (), False, (), 0, ())

    @rule(data=st.data(), at=st.integers(0, 3), count=st.integers(1, 6))
    def send_again_cut_otherwise(self, data: Any, at: int, count: int) -> None:
        """Nothing over used sequences is taken for a repetition but the batch itself, and nothing of it is executed."""
        if not self.sent:
            return
        sent = data.draw(st.sampled_from(self.sent))
        first, last = sent.first_sequence + at, self.last[sent.queue, sent.client_id]
        mine = [known for known in self.sent if (known.queue, known.client_id) == (sent.queue, sent.client_id)]
        cuts = {(known.first_sequence, len(known.batch.messages.payloads)) for known in mine}
        if first > last or (first, count) in cuts or self.may_be_forgotten(sent.queue, sent.client_id):
            return
        batch = batch_of([7] * count, queue=sent.queue)
        refused = self.driver.refusal(
            lambda: self.driver.plan_enqueue(
                batch, client_id=sent.client_id, first_sequence=first, request_hash=sent.request_hash
            )
        )
        assert refused.reason in {common_pb2.REASON_REQUEST_MISMATCH, common_pb2.REASON_DEDUP_EXPIRED}, refused

    # -- unary calls -----------------------------------------------------------------------------------------------

    def identity(self) -> tuple[bytes, int]:
        self.calls += 1
        return self.calls.to_bytes(16, "big"), self.calls * 7

    def remember(self, identity: tuple[bytes, int], kind: str, answer: Any) -> None:
        place = (self.driver.now_ms, len(self.asked), kind, self.driver.log_index)
        self.asked.append(Asked(*identity, *place, answer))

    @rule(queue=queues, count=st.integers(1, 3))
    def send_once(self, queue: str, count: int) -> None:
        identity = self.identity()
        op = self.driver.enqueue(batch_of([1] * count, queue=queue), request_id=identity[0], request_hash=identity[1])
        self.remember(identity, "enqueue", (op.first_index, count))

    @rule(queue=queues, count=st.integers(1, 4), immediate=st.booleans())
    def lease_once(self, queue: str, count: int, immediate: bool) -> None:
        identity = self.identity()
        header = self.driver.plan_lease(
            count, name=queue, immediate=immediate, request_id=identity[0], request_hash=identity[1]
        )
        if header is not None:
            applied = self.driver.order(header)
            self.remember(identity, "lease", (applied.lease_id, indexes_of(header.lease.ranges)))

    @rule(queue=queues, outcome=st.integers(1, 4), data=st.data())
    def settle_once(self, queue: str, outcome: int, data: Any) -> None:
        leases = [asked.answer for asked in self.asked if asked.kind == "lease" and asked.answer[0]]
        lease_id, indexes = data.draw(st.sampled_from(leases)) if leases else (5, [1])
        identity = self.identity()
        settlement = queue_service_pb2.Settlement(
            lease_id=lease_id, outcome=outcome, ranges=ranges_of((indexes[0], indexes[-1]))
        )
        before = self.driver.log_index
        results = self.driver.settle(settlement, name=queue, request_id=identity[0], request_hash=identity[1])
        if self.driver.log_index > before:
            self.remember(identity, "settle", results)

    @rule(queue=queues, length=st.integers(100, 105))
    def update_once(self, queue: str, length: int) -> None:
        identity = self.identity()
        header = self.driver.queue(
            record_pb2.QUEUE_ACTION_UPDATE,
            queue,
            config=admin_pb2.QueueConfig(max_length=length),
            request_id=identity[0],
            request_hash=identity[1],
        )
        assert header.queue.config.max_length == length
        self.remember(identity, "queue", (queue, self.driver.info(queue).version))

    @rule(data=st.data(), changed=st.booleans())
    def ask_again(self, data: Any, changed: bool) -> None:
        if not self.asked:
            return
        asked = data.draw(st.sampled_from(self.asked))
        try:
            found = self.driver.master.find_request(asked.request_id, asked.request_hash + changed)
        except Refused as refused:
            self.is_reason(refused, common_pb2.REASON_REQUEST_MISMATCH if changed else 0)
            return
        if found is None:
            newer = len(self.asked) - asked.number
            assert newer > LIMITS.requests_kept, "one of the newest requests is forgotten"
            assert asked.at_ms < self.driver.now_ms - WINDOW_MS, "forgotten too soon"
            return
        assert not changed, "another call passes for a repetition"
        assert (found.kind, found.log_index) == (asked.kind, asked.log_index)
        match asked.kind:
            case "enqueue":
                assert (found.first_index, found.count) == asked.answer
            case "lease":
                assert (found.lease_id, indexes_of(found.ranges)) == asked.answer
            case "settle":
                assert list(found.results) == asked.answer
            case _:
                assert (found.name, found.version) == asked.answer

    # -- the world -------------------------------------------------------------------------------------------------

    @rule(passed_ms=st.sampled_from([10, 900, 3_000, 9_000]))
    def time_passes(self, passed_ms: int) -> None:
        self.driver.now_ms += passed_ms
        self.driver.expire()

    @rule()
    def take_over(self) -> None:
        self.driver.epoch += 1
        self.driver.order(record_pb2.RecordHeader(time_ms=self.driver.now_ms, role=record_pb2.RoleOp(owner="b")))

    @rule(queue=queues)
    def close_and_open(self, queue: str) -> None:
        for member in MEMBERS:
            self.driver.queue(record_pb2.QUEUE_ACTION_CLOSE, queue, member=member)
        for member in MEMBERS:
            self.driver.queue(record_pb2.QUEUE_ACTION_OPEN, queue, member=member)

    @rule(queue=queues)
    def delete_and_create(self, queue: str) -> None:
        self.driver.queue(record_pb2.QUEUE_ACTION_DELETE, queue)
        self.driver.create(queue)
        self.sent = [sent for sent in self.sent if sent.queue != queue]
        self.last = {key: last for key, last in self.last.items() if key[0] != queue}

    @rule()
    def snapshot(self) -> None:
        self.snapshots.append((self.driver.log_index, self.driver.master.snapshot()))

    @rule()
    def restart(self) -> None:
        again = Machine.restore(self.driver.master.snapshot(), MEMBERS, LIMITS)
        assert again.digest() == self.driver.master.digest()
        self.driver.master = again

    @invariant()
    def what_is_remembered_is_bounded(self) -> None:
        """A producer: a window, and the sequences promised. All: the limit on rows, or two windows of those in use.

        Rows go when others come, so a window ends at the newest record: time that passes alone forgets nothing.
        """
        promised, total, newest_ms = LIMITS.dedup_sequences + CHUNK_ROWS, 0, 0
        producers = self.driver.master.state.producers.dump()
        for (_, client_id), producer in producers:
            of_client = [sent for sent in self.sent if sent.client_id == client_id]
            assert producer.rows <= promised + self.sent_since(producer.time_ms - WINDOW_MS, of_client)
            total += producer.rows
            newest_ms = max(newest_ms, producer.time_ms)
        assert total == self.driver.master.state.producers.rows
        in_use = len(producers) * promised + self.sent_since(newest_ms - 2 * WINDOW_MS, self.sent)
        assert total <= max(LIMITS.dedup_rows_max, in_use)

    @staticmethod
    def sent_since(since_ms: int, sent: list[Sent]) -> int:
        return sum(each.at_ms >= since_ms for each in sent)

    def teardown(self) -> None:
        """The log alone, and each snapshot with the rest of the log, give the same state and the same memory."""
        try:
            digest = self.driver.master.digest()
            bases = [(0, Machine(7, MEMBERS, LIMITS).snapshot()), *self.snapshots]
            for log_index, data in bases:
                again = Machine.restore(data, MEMBERS, LIMITS) if log_index else Machine(7, MEMBERS, LIMITS)
                for at, (epoch, header) in enumerate(self.driver.headers[log_index:], log_index + 1):
                    again.apply(at, epoch, header)
                assert again.digest() == digest, f"the state is not that of {log_index} and the log after it"
        finally:
            dedup.CHUNK_ROWS = self.rows_kept


def forget_rows_too_soon(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Any, producer: Any, _time_ms: int) -> None:
        while producer.chunks[0].end_sequence <= producer.last_sequence - LIMITS.dedup_sequences + 1:
            producer.rows -= len(producer.chunks[0].sequences)
            self.rows -= len(producer.chunks[0].sequences)
            del producer.chunks[0]

    patch.setattr(dedup.Producers, "_forget", forget)


def forget_requests_by_number_alone(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Any, _before_ms: int) -> None:
        while len(self._order) > LIMITS.requests_kept:
            del self._rows[self._order.popleft()]

    patch.setattr(requests.Requests, "_forget", forget)


def forget_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dedup.Producers, "_forget", lambda _self, _producer, _time_ms: None)


def forget_a_producer_in_use(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Any, _producer: Any, _time_ms: int) -> None:
        while len(self._producers) > LIMITS.dedup_producers_max:
            key, oldest = next(iter(self._producers.items()))
            self.rows -= oldest.rows
            del self._producers[key]

    patch.setattr(dedup.Producers, "_forget", forget)


def a_snapshot_without_what_was_in_the_batches(patch: pytest.MonkeyPatch) -> None:
    original = snapshot.producer_of

    def producer(row: Any) -> Any:
        made = original(row)
        made.fingerprints = made.fingerprints[:0]
        return made

    patch.setattr(snapshot, "producer_of", producer)


def ids_alone_name_a_call(patch: pytest.MonkeyPatch) -> None:
    original = requests.Requests.find

    def find(self: Any, request_id: bytes, _request_hash: int) -> Any:
        row = self._rows.get(request_id)
        return None if row is None else original(self, request_id, int.from_bytes(row[:8], "big"))

    patch.setattr(requests.Requests, "find", find)


PLANTED = (
    *(forget_nothing, forget_rows_too_soon, forget_requests_by_number_alone, forget_a_producer_in_use),
    *(a_snapshot_without_what_was_in_the_batches, ids_alone_name_a_call),
)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    # Ends at the first find; what is drawn changes with every constant of ours that Hypothesis reads.
    once = settings(profiles.of(1_500, stateful_step_count=50), database=None, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Retries, settings=once)


class More(Retries):
    """The same, over more examples."""


Retries.TestCase.settings = profiles.of(100, stateful_step_count=50)
More.TestCase.settings = profiles.of(200, stateful_step_count=50)
TestRetries = pytest.mark.slow(pytest.mark.timeout(600)(Retries.TestCase))
TestRetriesInMoreExamples = pytest.mark.long(pytest.mark.slow(pytest.mark.timeout(600)(More.TestCase)))

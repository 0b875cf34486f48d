"""A member's own side between two real cores: what it is given and when, who is served, and how far it says it is."""

from __future__ import annotations

import pytest

from replica.core.state.outcomes import Failed, SettleDone
from replica.machine import Limits, Machine
from replica.machine.plan.sides import GIVEN_BYTES_MAX, PORTIONS_MAX, SETTLED_TOGETHER, plan_lost
from replica.services.messages.side import problem_of_place
from tandemq.peer.v1 import record_pb2
from tandemq.peer.v1.peer_service_pb2 import SidePassed
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import OUTCOME_REJECT, OUTCOME_RELEASE
from tests.unit.replica.machine.driver import MEMBERS, batch_of
from tests.unit.replica.node.side_member import NOW_MS, NUMBER, Member


@pytest.fixture
async def member() -> Member:
    return Member()


async def test_k2_a_side_is_served_up_to_the_commit_index_in_any_role(member: Member) -> None:
    assert not member.pair.shared.serving
    member.driver.send(2)
    member.driver.commits = False
    member.driver.send(2)
    process, _ = member.consume()
    assert process.indexes == [1, 2]
    member.driver.commit()
    member.sides.on_moved()
    member.flush()
    assert process.indexes == [1, 2, 3, 4]


async def test_a_side_is_given_so_many_records_at_most_in_a_turn(member: Member) -> None:
    """Of large messages each is one: the next turn goes on, and others are served between the two."""
    for _ in range(PORTIONS_MAX + 1):
        member.driver.enqueue(batch_of([GIVEN_BYTES_MAX]))
    member.consume()
    assert member.side.next_index == PORTIONS_MAX + 1
    member.sides.on_moved()
    assert member.side.next_index == PORTIONS_MAX + 2


async def test_k4_a_second_process_at_one_member_is_refused(member: Member) -> None:
    member.consume()
    second, _ = member.consume(b"another")
    (answer,) = second.answers
    assert isinstance(answer, Failed)
    assert answer.reason == Reason.REASON_TWIN_TAKEN
    assert "queue q at a" in answer.message


async def test_k4_the_next_process_begins_with_the_first_that_is_not_settled(member: Member) -> None:
    member.driver.send(4)
    process, consumer = member.consume()
    ((lease_id, _),) = process.given
    member.settle(process, lease_id, 1)
    member.settle(process, lease_id, 3)
    member.flush()
    member.leave(consumer)
    following, _ = member.consume(b"another")
    assert following.indexes == [2, 4]
    member.leave(_)
    same, _ = member.consume(b"another")
    assert same.indexes == [2, 4], "started anew, it does not know what it was given"


async def test_k7_a_second_consumer_of_one_process_is_refused_whatever_its_client_id(member: Member) -> None:
    member.driver.send(2)
    first, _ = member.consume(over="ipv4:1")
    second, _ = member.consume(over="ipv4:1")
    assert [answer.reason for answer in second.answers if isinstance(answer, Failed)] == [Reason.REASON_TWIN_TAKEN]
    assert (first.indexes, first.answers, second.indexes) == ([1, 2], [], [])


async def test_k7_a_process_that_is_started_anew_takes_the_place_of_its_own_stream(member: Member) -> None:
    """The older one has most likely died with its machine. If it lives, it hears that its place is taken."""
    member.driver.send(2)
    first, _ = member.consume(over="ipv4:1")
    member.settle(first, first.given[0][0], 1)
    anew, _ = member.consume(over="ipv4:2")
    assert anew.indexes == [2]
    assert [answer.reason for answer in first.answers if isinstance(answer, Failed)] == [Reason.REASON_TWIN_TAKEN]
    member.driver.send(2)
    member.sides.on_moved()
    member.flush()
    assert (first.indexes, anew.indexes) == ([1, 2], [2, 3, 4]), "no two streams share a sequence"


async def test_k7_a_stream_that_opens_again_follows_the_one_that_broke(member: Member) -> None:
    """Its member has not seen yet that the older one is over: what that was given and lost comes again, in order."""
    member.driver.send(1)
    broken, _ = member.consume(over="ipv4:1")
    ((known, _),) = broken.given
    member.driver.send(2)
    member.sides.on_moved()
    member.flush()
    assert broken.indexes == [1, 2, 3]
    again, _ = member.consume(anew=False, over="ipv4:1", last_lease_id=known)
    assert again.indexes == [2, 3]
    member.driver.send(1)
    member.sides.on_moved()
    member.flush()
    assert (broken.indexes, again.indexes) == ([1, 2, 3], [2, 3, 4])
    member.settle(again, known, 1)
    member.flush()
    (settled,) = again.answers
    assert isinstance(settled, SettleDone)
    assert settled.results[0].settled == 1, "it still holds what it had received"


async def test_k4_what_is_released_comes_again_first(member: Member) -> None:
    member.driver.send(2)
    process, _ = member.consume()
    ((lease_id, _),) = process.given
    member.driver.send(1)
    member.settle(process, lease_id, 2, OUTCOME_RELEASE)
    member.sides.on_moved()
    member.flush()
    assert process.indexes == [1, 2, 2, 3]


async def test_k4_what_one_side_rejects_is_reported_and_the_other_side_still_gets_it(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(member.node._listener, "on_note", lambda _domain, note: notes.append(note.text))
    other = Member(member.driver, "b")
    member.driver.send(3)
    process, _ = member.consume()
    ((lease_id, _),) = process.given
    member.settle(process, lease_id, 1)
    member.sides.look(NOW_MS)
    assert notes == []
    member.settle(process, lease_id, 2, OUTCOME_REJECT)
    member.flush()
    for now_ms in (NOW_MS + 200, NOW_MS + 400):
        member.sides.look(now_ms)
    (note,) = [each for each in notes if "reject" in each]
    assert note.startswith("the side of queue q at a has rejected 1 of its messages, one of them 2")
    assert member.said == [2], "it is settled"
    member.driver.replica.commit(member.driver.log_index)
    other.pair.shared.progress.commit_index = member.driver.log_index
    assert other.consume()[0].indexes == [1, 2, 3]


async def test_k4_what_a_process_rejects_as_its_last_word_is_reported(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves before anybody looks, and no other one may ever come."""
    notes: list[str] = []
    monkeypatch.setattr(member.node._listener, "on_note", lambda _domain, note: notes.append(note.text))
    member.driver.send(2)
    process, consumer = member.consume()
    ((lease_id, _),) = process.given
    member.settle(process, lease_id, 2, OUTCOME_REJECT)
    member.leave(consumer)
    member.flush()
    for now_ms in (NOW_MS + 200, NOW_MS + 400):
        member.sides.look(now_ms)
    assert [note for note in notes if "has rejected 1 of its messages, one of them 2" in note] == notes != []


async def test_k6_a_side_is_as_far_as_its_disk_says(member: Member) -> None:
    member.driver.send(2)
    process, _ = member.consume()
    assert member.said == []
    ((lease_id, _),) = process.given
    member.settle(process, lease_id, 1)
    assert member.said == [], "it is settled in memory alone"
    member.flush()
    assert member.said == [1]


async def test_a_side_is_looked_at_while_the_log_does_not_say_how_far_it_is(member: Member) -> None:
    member.driver.send(2)
    process, consumer = member.consume()
    ((lease_id, _),) = process.given
    member.settle(process, lease_id, 1)
    member.flush()
    member.sides.look(NOW_MS)
    assert member.sides.moving, "it is served"
    member.leave(consumer)
    member.sides.look(NOW_MS + 200)
    assert member.sides.moving, "its mark is on no disk but its own"
    op = record_pb2.PassedOp(queue_id=1, marks=[{"member": "a", "index": 1}])
    member.driver.order(record_pb2.RecordHeader(time_ms=member.driver.now_ms, passed=op))
    member.sides.look(NOW_MS + 400)
    assert not member.sides.moving
    assert member.said == []
    member.pair.shared.set_machine(member.driver.replica)  # another copy: what the first one said may be gone
    member.sides.look(NOW_MS + 600)
    member.sides.look(NOW_MS + 800)
    assert not member.sides.moving, "that one says it too"


async def test_k2_the_peer_hears_of_commits_at_once_when_a_process_acts_at_its_side(member: Member) -> None:
    member.sides.on_beat(NUMBER, [])
    assert not member.pair.source.prompt
    member.sides.on_beat(NUMBER, [SidePassed(queue_id=1, index=1)])
    assert member.pair.source.prompt


async def test_k6_what_the_peer_said_is_forgotten_with_its_session(member: Member) -> None:
    """It may have lost its disk meanwhile."""
    member.driver.send(3)
    member.sides.on_beat(NUMBER, [SidePassed(queue_id=1, index=2)])
    assert member.sides._peer_passed((NUMBER, 1), member.queue, "b") == 2
    member.node.connect()
    assert member.sides._peer_passed((NUMBER, 1), member.queue, "b") == 0


async def test_k6_what_the_peer_said_of_a_place_that_was_lost_says_nothing_of_the_next_one(member: Member) -> None:
    """Its heartbeat was under way, or is what its copy knows: the new side may be behind that, and what lies between
    would go.
    """
    member.driver.send(3)
    old = SidePassed(queue_id=1, index=3)
    member.sides.on_beat(NUMBER, [old])
    assert member.sides._peer_passed((NUMBER, 1), member.queue, "b") == 3
    state = member.driver.master.state
    op = record_pb2.PassedOp(queue_id=1, marks=[{"member": "a", "index": 1}])
    member.driver.order(record_pb2.RecordHeader(time_ms=member.driver.now_ms, passed=op))
    member.driver.order(
        member.driver.plan(lambda: plan_lost(state, member.driver.now_ms, member.queue, {"b": "it was late"}))
    )
    member.driver.queue(record_pb2.QUEUE_ACTION_RESTART_SIDE, member="b")
    member.sides.on_beat(NUMBER, [old])
    assert member.sides._peer_passed((NUMBER, 1), member.queue, "b") == 0
    new = SidePassed(queue_id=1, index=2, restarted_ms=member.queue.restarted_ms["b"])
    member.sides.on_beat(NUMBER, [new])
    assert member.sides._peer_passed((NUMBER, 1), member.queue, "b") == 2


async def test_a_step_that_commits_nothing_looks_at_no_side(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands, and steps are many more than commits."""
    process, _ = member.consume()
    looks: list[int] = []
    monkeypatch.setattr(member.sides, "on_moved", lambda: looks.append(1))
    for _ in range(3):
        member.node.dispatch(member.pair)
    assert len(looks) == 1
    monkeypatch.undo()
    member.driver.send(2)
    member.node.dispatch(member.pair)
    member.flush()
    assert process.indexes == [1, 2], "a commit gives at once"


async def test_k1_what_a_crash_takes_back_of_a_side_is_given_again(member: Member) -> None:
    """Records of which nobody waits for the disk: what was given, and leased, and settled in large numbers."""
    process, consumer = member.consume()
    consumer.credit_messages = 1_000
    member.driver.send(SETTLED_TOGETHER + 1)
    member.sides.on_moved()
    assert process.indexes == list(range(1, SETTLED_TOGETHER + 2)), "it waits for the pair, and for no disk"
    ((lease_id, _),) = process.given
    member.settle(process, lease_id, 1, last=SETTLED_TOGETHER)
    assert not member.node.steps.pending.empty
    assert not member.node.steps.pending.hurried, "nobody waits for it alone"
    assert (process.answers, member.said) == ([], []), "nothing rests on what is not on the disk"
    await member.restart()
    again, _ = member.consume()
    assert again.indexes == list(range(1, SETTLED_TOGETHER + 2))[:100]


async def test_k1_what_was_done_under_a_lease_that_a_crash_took_is_settled_all_the_same(member: Member) -> None:
    """So what nobody holds is settled under any lease: which of it was given before the crash no disk says. What the
    side has not been given itself is not.
    """
    process, consumer = member.consume()
    consumer.credit_messages = 2
    member.driver.send(5)
    member.sides.on_moved()
    ((lease_id, given),) = process.given
    await member.restart()
    member.sides.on_moved()
    member.flush()
    name = member.sides.open(member.pair, member.queue, anew=True, client_id=b"twin", connection="")
    assert name is not None, "its side is there again"
    member.settle(process, lease_id, given[0], last=given[-1])
    member.settle(process, lease_id, 6)
    member.flush()
    first, beyond = (answer for answer in process.answers if isinstance(answer, SettleDone))
    assert [result.settled for result in first.results] == [len(given)]
    (result,) = beyond.results
    assert (result.settled, result.error.reason) == (0, Reason.REASON_LEASE_LOST)
    again, _ = member.consume()
    assert again.indexes == [index for index in range(1, 6) if index not in given]


async def test_few_messages_are_settled_at_once_with_all_that_waits(member: Member) -> None:
    process, _ = member.consume()
    member.driver.send(2)
    member.sides.on_moved()
    assert not member.node.steps.pending.hurried
    ((lease_id, _),) = process.given
    member.settle(process, lease_id, 1)
    assert member.node.steps.pending.hurried
    member.flush()
    assert len(process.answers) == 1
    await member.restart()
    again, _ = member.consume()
    assert again.indexes == [2]


async def test_a_side_waits_for_the_copy_behind_it(member: Member) -> None:
    """A full transfer takes its place, for example."""
    process, consumer = member.consume()
    consumer.credit_messages = 0
    member.driver.send(2)
    member.sides.on_moved()
    machine = member.pair.shared.machine
    member.pair.shared.set_machine(None)
    consumer.credit_messages = 100
    member.own.consumers.on_credit(consumer)
    member.flush()
    assert process.indexes == []
    member.pair.shared.set_machine(machine)
    member.sides.look(NOW_MS)
    member.flush()
    assert process.indexes == [1, 2]


async def test_a_side_goes_with_its_queue_and_not_with_a_copy_that_is_not_there(member: Member) -> None:
    member.driver.send(1)
    member.consume()
    machine = member.pair.shared.machine
    for now_ms, gone in ((NOW_MS, None), (NOW_MS + 500, Machine(NUMBER, MEMBERS, Limits()))):
        member.pair.shared.set_machine(gone)
        member.sides.look(now_ms)
        assert member.has_side
    member.pair.shared.set_machine(machine)
    member.driver.queue(record_pb2.QUEUE_ACTION_DELETE)
    member.sides.look(2 * NOW_MS)
    assert member.has_side, "that is not committed at this member, as far as it knows"
    member.pair.shared.progress.commit_index = member.driver.log_index
    member.sides.look(3 * NOW_MS)
    assert not member.has_side


@pytest.mark.parametrize(("destroyed", "stays"), [("a", False), ("b", True)])
async def test_a_side_goes_when_its_instance_is_destroyed(member: Member, destroyed: str, *, stays: bool) -> None:
    member.driver.send(1)
    member.consume()
    member.driver.queue(record_pb2.QUEUE_ACTION_DESTROY, member=destroyed)
    member.commit()
    assert member.has_side is stays


async def test_changed_attributes_reach_a_side_and_who_consumes_it(member: Member) -> None:
    lease = QueueConfig()
    lease.lease_duration.FromSeconds(7)
    member.consume()
    member.change(lease)
    assert member.side.config.lease_duration.ToSeconds() == 7
    assert member.side.config.replication == admin_pb2.REPLICATION_NONE


async def test_who_may_not_receive_any_more_is_sent_away(member: Member) -> None:
    member.driver.send(2)
    process, _ = member.consume()
    member.change(QueueConfig(dequeue_enabled=False))
    (answer,) = process.answers
    assert isinstance(answer, Failed)
    assert answer.reason == Reason.REASON_DEQUEUE_DISABLED
    assert answer.metadata == {"queue": "q"}
    member.driver.send(1)
    member.change(QueueConfig(dequeue_enabled=True))
    following, _ = member.consume()
    assert (following.answers, following.indexes) == ([], [1, 2, 3])


async def test_a_queue_that_is_closed_at_a_member_has_no_consumer_there(member: Member) -> None:
    member.driver.send(1)
    process, _ = member.consume()
    member.driver.queue(record_pb2.QUEUE_ACTION_CLOSE, member="b")
    member.commit()
    assert process.answers == [], "it is open here"
    member.driver.queue(record_pb2.QUEUE_ACTION_CLOSE, member="a")
    member.commit()
    (answer,) = process.answers
    assert isinstance(answer, Failed)
    assert answer.reason == Reason.REASON_INVALID_STATE
    assert answer.message.startswith("queue q is not open at a")
    member.driver.queue(record_pb2.QUEUE_ACTION_OPEN, member="a")
    member.commit()
    assert member.consume()[0].indexes == [1]


async def test_k6_who_has_lost_its_place_is_sent_away_and_begins_anew_knowingly(member: Member) -> None:
    """The loss counts once it is committed; the side is not served again before somebody has said so."""
    driver = member.driver
    driver.send(5)
    process, _ = member.consume()
    passed = record_pb2.PassedOp(queue_id=1, marks=[{"member": "b", "index": 4}])
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, passed=passed))
    driver.commits = False
    lost = record_pb2.PassedOp(
        queue_id=1, lost=[{"member": "a", "because": "it was away"}], gone={"first": 1, "count": 4}
    )
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, passed=lost))
    member.sides.on_moved()
    member.flush()
    assert (process.answers, member.has_side) == ([], True), "a takeover may still take that back"
    undecided = problem_of_place(member.pair.shared, member.queue)
    assert undecided is not None
    assert (undecided.reason, undecided.retry_after_ms) == (Reason.REASON_NO_MASTER, 200), "who comes now comes again"
    driver.commit()
    member.commit()
    (answer,) = process.answers
    assert isinstance(answer, Failed)
    assert answer.reason == Reason.REASON_SIDE_LOST
    assert (answer.metadata["lost_after"], answer.metadata["lost_until"]) == ("0", "4")
    assert not member.has_side
    refused = member.sides.lost(member.sides.key(member.pair, member.queue))
    assert refused is not None
    assert refused.message == answer.message
    comes = problem_of_place(member.pair.shared, member.queue)
    assert comes is not None
    assert (comes.reason, comes.message) == (answer.reason, answer.message)
    driver.commits = True
    driver.queue(record_pb2.QUEUE_ACTION_RESTART_SIDE, member="a")
    member.commit()
    following, _ = member.consume()
    assert following.indexes == [5]


@pytest.mark.parametrize("is_served", [True, False])
async def test_k6_a_side_that_has_not_seen_its_loss_begins_anew_all_the_same(
    member: Member, *, is_served: bool
) -> None:
    """Its member was away meanwhile, and it had settled more than the pair knew: with the state of its twin, which may
    be less, its process would miss what lies between.
    """
    driver = member.driver
    driver.send(6)
    process, consumer = member.consume()
    for index in range(1, 6):
        member.settle(process, process.given[0][0], index)
    member.flush()
    if not is_served:
        member.leave(consumer)
    for op in (
        record_pb2.PassedOp(queue_id=1, marks=[{"member": "b", "index": 3}]),
        record_pb2.PassedOp(queue_id=1, lost=[{"member": "a", "because": "away"}], gone={"first": 1, "count": 3}),
    ):
        driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, passed=op))
    driver.queue(record_pb2.QUEUE_ACTION_RESTART_SIDE, member="a")
    assert member.said == [], "what the side was before says nothing of what it is now"
    if is_served:
        member.commit()
        answer = process.answers[-1]
        assert isinstance(answer, Failed)
        assert answer.reason == Reason.REASON_SIDE_LOST
        assert "begun anew" in answer.message
    following, _ = member.consume()
    assert following.indexes == [4, 5, 6]


async def test_a_side_that_is_behind_its_mark_begins_anew(member: Member) -> None:
    """This member's disk has lost what it had said, and what both had passed is gone."""
    member.driver.send(3)
    process, consumer = member.consume()
    assert process.indexes == [1, 2, 3]
    member.leave(consumer)
    op = record_pb2.PassedOp(queue_id=1, marks=[{"member": "a", "index": 2}])
    member.driver.order(record_pb2.RecordHeader(time_ms=member.driver.now_ms, passed=op))
    following, _ = member.consume()
    assert following.indexes == [3]

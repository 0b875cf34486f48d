"""What a cut says of the records that it takes away: acknowledged for certain, perhaps, or certainly not."""

from __future__ import annotations

from replica.core.replication.divergence import salvage_above
from replica.core.state.effects import Salvage
from tests.support.clients import Producer
from tests.support.pair import Member, Pair
from tests.support.stories import paired


def ordered_by_a_alone() -> tuple[Pair, int]:
    """A has ordered a message that nobody else has or was told of, and B has taken over without it; its log index."""
    pair, x = paired()
    pair.disconnect()
    operation = x.send(pair.a)
    pair.a.commit()
    last = pair.a.shared.log.last_index
    assert operation.done is None
    pair.b.lost(refused=True)
    pair.quiesce(link=False)
    assert pair.b.serving
    return pair, last


def only_cut(member: Member) -> Salvage:
    (cut,) = member.cuts
    return cut


def test_what_this_process_ordered_and_did_not_answer_is_certainly_unacknowledged() -> None:
    pair, last = ordered_by_a_alone()
    pair.connect()
    pair.settle(3000)
    cut = only_cut(pair.a)
    assert cut.acknowledged_up_to < cut.first <= cut.unacknowledged_from <= last == cut.last


def test_what_the_peer_was_sent_may_have_been_acknowledged_by_the_peer() -> None:
    """B has it durable, and A never hears so. B takes over, may answer it, and loses its last writes."""
    pair, x = paired()
    operation = x.send(pair.a)
    pair.a.commit()
    while pair.deliver(pair.a):
        pass
    assert operation.done is None
    ordered = pair.a.shared.log.last_index
    pair.disconnect()
    assert pair.b.shared.log.last_index == ordered
    pair.crash(pair.b)
    salvage_above(pair.a.shared, ordered - 1, "test")
    (cut,) = (effect for effect in pair.a.shared.outbox.effects if isinstance(effect, Salvage))
    assert cut.acknowledged_up_to < ordered < cut.unacknowledged_from


def test_what_another_process_ordered_may_have_been_acknowledged() -> None:
    """It does not know any more what it answered."""
    pair, last = ordered_by_a_alone()
    pair.crash(pair.a)
    pair.a.start()
    pair.connect()
    pair.settle(3000)
    cut = only_cut(pair.a)
    assert cut.acknowledged_up_to < cut.first <= last == cut.last
    assert cut.unacknowledged_from == 0


def test_what_a_replica_followed_may_have_been_acknowledged_though_it_was_master_before() -> None:
    """What it ordered itself ends where it followed: the new master answered what is beyond."""
    pair, _ = ordered_by_a_alone()
    pair.connect()
    pair.settle(3000)
    assert pair.is_paired
    assert pair.a.shared.progress.ordered_from == 0
    done = Producer(pair, "later").send(pair.b)
    pair.settle(500)
    assert done.done is not None
    assert pair.b.shared.progress.ordered_from <= pair.b.shared.log.last_index

"""Faults of the product's core that walks and reading found, each told as the story in which it failed."""

from __future__ import annotations

import pytest

from failover.marks import DataMark, Link, Role
from replica.core.replication.sync_source import Phase
from tandemq.peer.v1.peer_service_pb2 import PeerFrame, SyncBegin
from tests.support.clients import Producer, check_contents, create
from tests.support.pair import NUMBER, Member, Pair
from tests.support.walk import trim


def paired() -> tuple[Pair, Producer]:
    pair = Pair().start()
    create(pair)
    return pair, Producer(pair, "x")


def solo(pair: Pair, master: Member) -> None:
    """The peer crashes, and the master goes on alone in a new epoch."""
    pair.crash(master.peer)
    master.lost(refused=True)
    pair.settle(500)
    assert master.serving
    assert master.core.mastership.commit.required == {master.name}


def test_r122_an_answer_names_the_record_and_not_the_epoch_that_committed_it() -> None:
    """1. A orders op1 in epoch 1; B crashes before it holds it. 2. A goes solo: epoch 2 commits op1 and answers it.

    The answer said epoch 2; the record, its message id and every repetition say epoch 1.
    """
    pair, x = paired()
    pair.cut()
    op = x.send(pair.a)
    solo(pair, pair.a)
    assert op.done is not None
    assert (op.done.epoch, pair.a.shared.state.epoch) == (1, 2)
    x.submit(op, pair.a)  # the repetition is compared with the first answer
    pair.settle()


def test_p12_one_hello_makes_one_sync() -> None:
    """1. A loses B and reads the register. 2. B is back and says HELLO with its log at 2; A means to answer after the
    next read of the register. 3. Until then A ends its own claim and starts SYNC from the same HELLO; B follows, stores
    and acknowledges. 4. The read is answered, and A starts SYNC once more from the old HELLO: B is told to cut what
    clients were told both members hold.
    """
    pair, x = paired()
    a, b = pair.a, pair.b
    pair.disconnect()
    a.lost()
    pair.quiesce(keep=("claim",), disks="a")
    pair.connect()
    pair.quiesce(keep=("",), link=True)
    a.core.mastership.peer.sync_when_read = True  # a HELLO was taken just before the claim was made
    pair.quiesce(keep=("read",))
    op = x.send(a)
    pair.settle(300)
    assert op.done is not None
    held = b.shared.log.last_index
    a.core.mastership.peer.sync_when_read = True
    a.core.mastership.on_register(pair.register, pair.now_ms)
    a.dispatch(a.core)
    assert a.core.source.phase is Phase.LIVE
    pair.settle(300)
    assert b.shared.log.last_index >= held
    assert pair.is_paired


def test_p10_a_sync_from_below_never_cuts_what_is_committed() -> None:
    """A SYNC_BEGIN that was made from an older HELLO names a base below what B has applied. B cut down to it, or broke
    on its own assertion; the master has all of that, and its digests show it.
    """
    pair, x = paired()
    for _ in range(3):
        x.send(pair.a)
    pair.settle(300)
    b = pair.b
    log = b.shared.log
    base = log.last_index - 3
    epoch, digest = log.digest_at(base)
    begin = SyncBegin(sync_id=99, base_index=base, base_digest=digest, target_index=log.last_index)
    begin.history.add(epoch=epoch, first_index=1)
    last = log.last_index
    b.take_frame(PeerFrame(domain=NUMBER, epoch=epoch, sync_begin=begin))
    pair.quiesce()
    assert (log.last_index, b.store.bounds(NUMBER)[1]) == (last, last)


def test_p8_a_replica_whose_master_stepped_down_does_not_wait_for_it() -> None:
    """1. B claims epoch 2 and the call is slow; the link comes back, B takes A's SYNC and gives the claim up. 2. The
    claim lands. A finds it in the register and steps down (P7). 3. The register names B, so A leaves the next claim to
    B (P8); B still followed A and left it to A. Both waited for ever.
    """
    pair, x = paired()
    a, b = pair.a, pair.b
    pair.disconnect()
    b.lost()
    pair.tick(400)
    pair.quiesce(keep=("claim",))
    late = pair.call(b, "claim")
    pair.connect()
    pair.quiesce(keep=("claim",))
    assert b.role is Role.REPLICA
    pair.lose(late)
    pair.land_late()
    pair.settle(3000)
    assert pair.is_paired
    assert pair.register.epoch > 2
    x.send(a)
    x.send(b)
    pair.settle(300)
    check_contents(pair, [x])


def test_two_copies_are_said_when_the_second_is_there() -> None:
    """1. A is solo; B is back and takes the log up to 3. 2. Meanwhile A acknowledges op1 alone. 3. B acknowledges the
    open: A requires it from now on. 4. The client repeats op1, and A answered copies=2 while B held nothing of it.
    """
    pair, x = paired()
    a, b = pair.a, pair.b
    solo(pair, a)
    b.start()
    pair.connect()
    pair.quiesce(disks="a", keep=("add",))
    assert a.core.source.phase is Phase.LIVE
    op = x.send(a)
    a.commit()
    assert op.done is not None
    assert op.done.copies == 1
    b.commit()  # everything up to SYNC_END; op1 is still on its way
    while pair.deliver(b):
        x.submit(op, a)  # what it is told is held against both disks
    assert a.core.mastership.commit.required == {"a", "b"}
    assert a.core.mastership.commit.copies == 1
    while pair.deliver(a):
        pass
    x.submit(op, b)  # applied there, by A's word, and not written
    while pair.deliver(b) or pair.deliver(a):
        pass
    pair.heal()
    assert a.core.mastership.commit.copies == 2
    check_contents(pair, [x])


def test_a_second_cut_during_a_rebuild_asks_for_another_rebuild() -> None:
    """1. B, once master, applied op1 alone, and cuts it for its new master; its queues are read again from disk. 2.
    Before that has ended, its master restarts and B cuts once more. The first reading was thrown away as out of date,
    and nobody asked for another: B never came up again.
    """
    pair, x = paired()
    a, b = pair.a, pair.b
    pair.cut()
    x.send(a)
    a.commit()  # only A has it, nobody was told
    pair.crash(a, noticed=True)
    b.lost(refused=True)
    pair.settle(500)
    assert b.serving
    a.start()
    pair.connect()
    pair.quiesce(disks="b", keep=("add",))
    assert a.shared.machine is None, "the tail is cut and its state is read again"
    y = Producer(pair, "y")
    y.send(b)
    b.pump()
    pair.deliver(b)  # A takes it, B has not written it
    pair.crash(b)
    b.start()
    pair.connect()
    pair.quiesce(disks="b", keep=("add",))
    pair.heal()
    x.retry(a)
    y.retry(b)
    pair.settle(300)
    check_contents(pair, [x, y])


def test_p13_a_refused_sync_is_heard_in_the_new_epoch() -> None:
    """B cannot take the base that A offers, and says so. It said so in its old epoch, A dropped the frame as out of
    date, and both waited.
    """
    pair, _ = paired()
    a, b = pair.a, pair.b
    pair.crash(b)
    a.lost(refused=True)
    pair.settle(300)
    b.start()
    pair.connect()
    while a.core.source.phase is Phase.IDLE:
        if not (pair.deliver(a) or pair.deliver(b)):
            pair.quiesce(link=False)
    a.pump()
    for frame in pair.wires["a"]:
        if frame.HasField("sync_begin"):
            frame.sync_begin.base_digest = bytes(16)
    pair.heal()
    assert b.shared.link is Link.PAIRED


def test_a_trimmed_log_still_knows_where_it_ends() -> None:
    """1. Everything is consumed, a checkpoint stands at the last record, and nothing comes for as long as the
    journal is kept. 2. The trim drops every record, the last one included. 3. At the next start the log seems to
    end below its checkpoint: the copy counts as damaged; on both members, nobody may be master any more.
    """
    pair, _ = paired()
    for member in (pair.a, pair.b):
        trim(member)
    pair.crash(pair.a)
    pair.crash(pair.b)
    pair.a.start()
    pair.b.start()
    assert pair.a.shared.state.data is DataMark.IN_SYNC
    pair.heal()


@pytest.mark.parametrize("at", ["a", "b"])
def test_whoever_asks_for_two_copies_is_never_told_of_one(at: str) -> None:
    """1. op1 asks for two copies; A orders it and loses B before B holds it. 2. A goes solo and commits it alone. The
    call itself was answered NOT_ENOUGH_COPIES, its repetition copies=1. 3. B is back with op1 still held for its
    client; the delta brings the record, and B, not even open, answered copies=1.
    """
    pair, _ = paired()
    y = Producer(pair, "y", min_copies=2)
    op = y.send(pair.members[at])
    pair.a.pump()
    pair.deliver(pair.b)
    pair.disconnect()
    y.submit(op, pair.a)
    pair.a.lost()
    pair.settle(500)
    pair.tick(400)
    assert op.done is None
    pair.heal()
    y.retry(pair.a)
    pair.settle(200)
    assert op.done is not None
    assert op.done.copies == 2


def test_p12_a_member_that_changed_while_it_connected_says_so() -> None:
    """1. A dials: its HELLO says MASTER. 2. Before the streams are up, A finds B's left-over claim in the register and
    steps down; there is no session to say it on. 3. B goes by the HELLO and waits for A's SYNC, A waits for B, whom the
    register names.
    """
    pair, x = paired()
    pair.disconnect()
    pair.b.lost()
    pair.tick(400)
    pair.quiesce(keep=("claim",))
    pair.connect()
    pair.lose(pair.call(pair.b, "claim"))
    pair.land_late()
    pair.tick(1100)
    pair.quiesce(link=False)
    assert pair.a.role is Role.PROBE
    pair.settle(3000)
    assert pair.is_paired
    x.send(pair.a)
    pair.heal()


def test_a_batch_that_is_stored_is_never_refused_for_want_of_room() -> None:
    """1. A stores op1, its answer is lost, and A's store fills up. 2. The client repeats op1. Room was looked at before
    the repetition was known: STORAGE_FULL says "certainly not applied" of a message that both members hold.
    """
    pair, x = paired()
    op = x.send(pair.a)
    pair.settle(200)
    assert op.done is not None
    op.done = None
    pair.a.core.orders.is_full = True
    x.submit(op, pair.a)
    pair.settle(200)
    assert op.done is not None
    assert op.done.duplicate


def test_p14_a_restarted_replica_does_not_answer_a_repetition_from_its_own_log() -> None:
    """1. A orders op1; B has it on disk, A not yet. 2. B restarts: its queues hold op1, from its own log. 3. The client
    repeats op1 at B; A knows it. B answered copies=2, with A's disk still at work.
    """
    pair, x = paired()
    op = x.send(pair.a)
    pair.quiesce(disks="b")
    assert op.done is None
    pair.crash(pair.b)
    pair.b.start()
    pair.connect()
    pair.quiesce(disks="b")
    x.submit(op, pair.b)
    for _ in range(10):
        pair.tick()
        pair.quiesce(disks="b")
        pair.beat(pair.a)
        pair.quiesce(disks="b")
    assert op.done is None
    pair.settle(500)
    assert op.done is not None
    check_contents(pair, [x])


def test_p6_a_late_done_opens_no_gate_once_the_peer_has_said_a_higher_epoch() -> None:
    """1. A's commit of epoch 2 lands; its answer is on its way. 2. The link is cut; B claims epoch 3 over it, serves
    and acknowledges alone. 3. They meet, and B says epoch 3. 4. The answer arrives: A served epoch 2 beside B.
    """
    pair, x = paired()
    a, b = pair.a, pair.b
    pair.crash(a)
    pair.crash(b)
    a.start()
    b.start()
    pair.connect()
    for _ in range(20):
        pair.quiesce(keep=("commit",))
        if pair.has_call(a, "commit"):
            break
        pair.tick()
    late = pair.call(a, "commit")
    pair.land(late)
    pair.disconnect()
    b.lost()
    while not b.serving:
        pair.now_ms += 20
        b.tick()
        pair.quiesce(keep=("commit",))
        for call in [each for each in pair.calls if each.member == "b"]:
            pair.answer(call)
    op = x.send(b)
    pair.quiesce(keep=("commit",))
    assert op.done is not None
    assert op.done.copies == 1
    pair.connect()
    pair.deliver(b)  # its HELLO; the SYNC comes later
    assert late in pair.calls
    pair.answer(late)
    assert not a.serving
    pair.heal()
    check_contents(pair, [x])


def test_a_refused_batch_says_how_far_its_producer_got() -> None:
    """1. A orders x1 on both copies. 2. A goes solo. 3. x2 asks for two copies and is refused, with nothing ordered.

    The refusal said that nothing of x was ever executed: its client numbered what followed from 1 on, and was given the
    answers of x1 for messages that were stored nowhere. With x3, ordered before the peer was lost, the same.
    """
    pair = Pair().start()
    create(pair)
    x = Producer(pair, "x", min_copies=2)
    assert x.send(pair.a).done is None
    pair.settle()
    pair.cut()
    stored = x.send(pair.a)
    solo(pair, pair.a)
    refused = x.send(pair.a)
    pair.settle()
    told = [op.failures[0] for op in (stored, refused)]
    assert [(each.metadata.get("outcome"), each.metadata["last_sequence"]) for each in told] == [  # type: ignore[union-attr]  # both Failed
        ("stored", "2"),
        (None, "2"),
    ]


def test_p6_a_late_answer_to_a_claim_that_was_given_up_says_nothing_new() -> None:
    """1. B claims epoch 2; the link is back and B follows A instead; the answer is still on its way. 2. A finds the
    claim and steps down; B claims epoch 3 and serves. 3. The answer says "done", of epoch 2.

    B took it for the register as it is, and died of its next addition to the set (the exhaustive model found it).
    """
    pair, x = paired()
    pair.disconnect()
    pair.b.lost()
    pair.tick(400)
    pair.quiesce(keep=("claim",))
    late = pair.call(pair.b, "claim")
    pair.connect()
    pair.quiesce(keep=("claim",))
    assert pair.b.role is Role.REPLICA
    pair.land(late)
    for _ in range(50):
        pair.tick(100)
        pair.quiesce(keep=(late.name,))
    assert pair.register.epoch > 2
    assert pair.master is not None
    pair.answer(late)
    assert pair.b.core.mastership.view.register == pair.register
    pair.settle(200)
    assert pair.is_paired
    x.send(pair.master)
    pair.settle(200)
    check_contents(pair, [x])


def test_p3_an_answer_to_an_addition_of_an_earlier_epoch_is_not_this_ones() -> None:
    """1. A is solo and adds B; the link breaks before the answer. 2. In a new epoch A adds B again. 3. Only the first
    answer comes, refused: A must not take it for the second one's, and ask a third time.
    """
    pair, _ = paired()
    solo(pair, pair.a)
    pair.b.start()
    pair.connect()
    pair.quiesce(keep=("add",))
    first = pair.call(pair.a, "add")
    pair.crash(pair.b)
    mastership = pair.a.core.mastership
    mastership.role.become_probe("as on any higher epoch elsewhere")
    pair.b.start()
    pair.connect()
    for _ in range(50):
        pair.tick(100)
        pair.quiesce(keep=("add",))
    second = [call for call in pair.calls if call.name.startswith("add") and call is not first]
    assert len(second) == 1
    pair.answer(first)
    pair.quiesce(keep=("add",))
    assert [call for call in pair.calls if call.name.startswith("add")] == second
    pair.settle(200)
    assert pair.is_paired

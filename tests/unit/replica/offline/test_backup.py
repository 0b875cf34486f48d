"""What a backup says of a store, what an examination finds in it, and what a restored copy may never believe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from failover.marks import DataMark
from failover.promotion import Facts, Wait, decide, next_epoch
from failover.register import Register, RegisterState
from replica.core.state.durable import DomainState, decode_state, state_key
from replica.machine import EnqueueCall, Fresh, Limits, Machine, QueueCall, columns_of
from replica.machine.plan.enqueue import plan_enqueue
from replica.machine.plan.queue import plan_queue
from replica.node.members import LOCAL, MAIN, domain_number
from replica.offline.backup import head_of, pieces, restored_meta
from replica.offline.examine import examine
from replica.offline.restoring import RESTORED, restore
from replica.peer.identity.incarnation import INCARNATION, KNOWN
from storage.backup import BackupHead, Packer
from storage.disk import open_disk, open_to_read
from storage.errors import CorruptRecord, DirectoryNotEmpty, RestoreUnfinished, StoreFull, WrongPair
from storage.memory import MemoryStore
from storage.records import ZERO_DIGEST, assemble, build_head
from storage.seal import seal
from storage.store import META_INSTANCE, Append, Store, WriteBatch
from tandemq.peer.v1.record_pb2 import QueueAction
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch

DOMAIN = domain_number(MAIN)
OWN = domain_number(LOCAL)


def fill(store: Store, domain: int, name: str, batches: int) -> None:
    """One queue with batches of two messages, ordered by a real machine; epoch 3."""
    machine = Machine(domain, ["a", "b"], Limits())
    digest, rows = ZERO_DIGEST, []
    for log_index in range(1, batches + 2):
        body = b""
        if log_index == 1:
            header = plan_queue(
                machine.state,
                machine.member_names,
                1,
                QueueCall(QueueAction.QUEUE_ACTION_CREATE, "q", members=["a", "b"]),
            )
        else:
            batch = EnqueueBatch(queue="q", messages=MessageBatch(payloads=[b"x", b"%d" % log_index]))
            plan = plan_enqueue(
                machine.state,
                log_index,
                EnqueueCall("q", b"c", 2 * log_index - 3, columns_of(batch), "a", request_hash=1),
            )
            assert isinstance(plan, Fresh)
            header, body = plan.header, batch.SerializeToString()
        head, digest = build_head(
            flags=0,
            domain=domain,
            epoch=3,
            log_index=log_index,
            header=header.SerializeToString(),
            body=body,
            previous_digest=digest,
        )
        machine.apply(log_index, 3, header)
        rows.append(Append(domain, log_index, assemble(head, body)))
    state = DomainState(
        name=name, epoch=3, owner="a", data=DataMark.IN_SYNC, in_sync_set=["a", "b"], history=[(3, 1)], promised_epoch=3
    )
    store.commit(WriteBatch(appends=rows, meta={state_key(domain): state.encode()}))


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore(pair="p", member="a", instance=b"i" * 16)
    fill(store, DOMAIN, MAIN, 4)
    fill(store, OWN, LOCAL, 1)
    store.commit(WriteBatch(meta={INCARNATION: seal((7).to_bytes(8, "big")), KNOWN: b"", "operator/maintenance": b"1"}))
    return store


def head_for(store: Store) -> BackupHead:
    view = store.view()
    head = head_of(view, pair="p", member="a", peer="b", product="1", time_ms=5, size=1000, whole=True)
    view.close()
    return head


def backup_of(store: Store, path: Path) -> Path:
    view = store.view()
    path.write_bytes(b"".join(pieces(view, head_for(store), Packer())))
    view.close()
    return path


def test_the_head_says_where_every_domain_stands(store: MemoryStore) -> None:
    head = head_for(store)
    assert {(each.name, each.epoch, each.log_index, each.data, each.records) for each in head.domains} == {
        (MAIN, 3, 5, "IN_SYNC", 5),
        (LOCAL, 3, 2, "IN_SYNC", 2),
    }
    assert (head.instance, head.incarnation, head.whole, head.records) == (b"i" * 16, 7, True, 7)


def test_an_examination_tells_what_is_in_the_queues(store: MemoryStore) -> None:
    found = {facts.name: facts for facts in examine(store, head_for(store))}
    assert [(queue.name, queue.messages, queue.last_index) for queue in found[MAIN].queues] == [("q", 8, 8)]
    assert (found[MAIN].log_index, found[MAIN].records, found[LOCAL].messages) == (5, 5, 2)


def _without(log_index: int) -> Callable[[MemoryStore], None]:
    return lambda store: store.commit(WriteBatch(drops={DOMAIN: [log_index]}))


def _swapped(store: MemoryStore) -> None:
    """A record of another history: whole in itself."""
    other = MemoryStore(pair="p", member="a")
    fill(other, DOMAIN, MAIN, 3)
    fill(other, OWN, LOCAL, 4)
    row = other.read(OWN, 4)
    assert row is not None
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 4, row)]))


def _shorter(store: MemoryStore) -> None:
    """The log before is trimmed although messages of it are live; there is no checkpoint."""
    state = decode_state(store.get_meta(state_key(DOMAIN)) or b"")
    state.kept_from = 4
    store.commit(WriteBatch(drops={DOMAIN: [1, 2, 3]}, meta={state_key(DOMAIN): state.encode()}))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_without(3), "record 3 is missing, found 4"),
        (_without(5), "other domains than there are: main"),
        (_swapped, "carries digest|says 0x"),
        (_shorter, "no checkpoint"),
    ],
)
def test_an_examination_finds_what_is_wrong(
    store: MemoryStore, damage: Callable[[MemoryStore], None], said: str
) -> None:
    head = head_for(store)
    damage(store)
    with pytest.raises(CorruptRecord, match=said):
        examine(store, head)


def test_a_flipped_byte_of_a_record_is_found_in_a_backup_too(store: MemoryStore, tmp_path: Path) -> None:
    """The frames' checksums say that the file is as it was written; what was written may have been damaged before."""
    row = bytearray(store.read(DOMAIN, 3) or b"")
    row[-1] ^= 1
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 3, bytes(row))]))
    path = backup_of(store, tmp_path / "b.tqb")
    with pytest.raises(CorruptRecord, match="body of a record has CRC32C"):
        restore(path, tmp_path / "d")
    assert not (tmp_path / "d").exists()


@pytest.mark.requirement("R154")  # what is restored is the backup's records, in a directory of a new instance
def test_a_backup_becomes_a_directory_of_a_new_instance(store: MemoryStore, tmp_path: Path) -> None:
    path = backup_of(store, tmp_path / "b.tqb")
    done = restore(path, tmp_path / "d", pair="p", member="a")
    assert (done.member, done.records, done.left_out) == ("a", 7, ())
    made = open_disk(tmp_path / "d", pair="p", member="a", ballast_bytes=0)
    assert made.scan(DOMAIN, 0) == store.scan(DOMAIN, 0)
    assert made.get_meta(META_INSTANCE) != b"i" * 16
    assert made.get_meta(RESTORED) is not None
    assert made.get_meta("operator/maintenance") is None
    assert made.get_meta(KNOWN) is None, "whose processes ran on the other directory says nothing of this one"
    assert made.get_meta(INCARNATION) == store.get_meta(INCARNATION)
    made.close()
    assert {facts.name: facts.data for facts in examine(open_to_read(tmp_path / "d"), None)} == {
        MAIN: "STALE",
        LOCAL: "IN_SYNC",
    }


@pytest.mark.parametrize("pair_connected", [True, False])
def test_a_restored_copy_of_a_pair_claims_nothing_whatever_the_register_says(
    store: MemoryStore, pair_connected: bool
) -> None:
    """It was the holder when the backup was taken; what was acknowledged since, it cannot know."""
    value = restored_meta(head_for(store), "a", state_key(DOMAIN), store.get_meta(state_key(DOMAIN)) or b"")
    state = decode_state(value or b"")
    register = Register(state=RegisterState.COMMITTED, epoch=3, holder="a", in_sync_set=frozenset({"a", "b"}))
    facts = Facts(
        member="a",
        peer="b",
        data=state.data,
        peer_connected=pair_connected,
        peer_role_master=False,
        peer_data=DataMark.EMPTY,
        register=register,
        peer_lost=True,
    )
    assert isinstance(decide(facts), Wait)


def test_no_message_id_is_given_twice_where_nobody_else_counts_epochs(store: MemoryStore) -> None:
    """Ids are made of epochs: what was begun after the backup is unknown, so far more than that is left out."""
    value = restored_meta(head_for(store), "a", state_key(OWN), store.get_meta(state_key(OWN)) or b"")
    state = decode_state(value or b"")
    assert next_epoch(None, state.epoch, state.promised_epoch, 0) > 3 + 500
    paired = restored_meta(head_for(store), "a", state_key(DOMAIN), store.get_meta(state_key(DOMAIN)) or b"")
    assert decode_state(paired or b"").promised_epoch == 3, "else it would not follow a master whose epoch is lower"


def test_the_other_member_gets_all_but_what_is_a_members_own(store: MemoryStore, tmp_path: Path) -> None:
    done = restore(backup_of(store, tmp_path / "b.tqb"), tmp_path / "d", member="b")
    assert (done.member, done.records, done.left_out) == ("b", 5, (LOCAL,))
    made = open_to_read(tmp_path / "d")
    assert (made.bounds(DOMAIN), made.bounds(OWN), made.get_meta(state_key(OWN))) == ((1, 5), None, None)
    made.close()


@pytest.mark.parametrize(("pair", "member"), [("other", None), ("", "a"), ("p", "c"), (None, "c")])
def test_a_backup_of_somebody_else_is_refused(
    store: MemoryStore, tmp_path: Path, pair: str | None, member: str | None
) -> None:
    path = backup_of(store, tmp_path / "b.tqb")
    with pytest.raises(WrongPair):
        restore(path, tmp_path / "d", pair=pair, member=member)
    assert not (tmp_path / "d").exists()


def test_a_directory_that_holds_anything_is_refused_and_left_alone(store: MemoryStore, tmp_path: Path) -> None:
    path = backup_of(store, tmp_path / "b.tqb")
    directory = tmp_path / "d"
    directory.mkdir()
    (directory / "data.mdb").write_bytes(b"precious")
    with pytest.raises(DirectoryNotEmpty, match=r"data\.mdb"):
        restore(path, directory)
    assert sorted(each.name for each in directory.iterdir()) == ["LOCK", "data.mdb"]
    assert (directory / "data.mdb").read_bytes() == b"precious"


def test_a_restore_that_was_broken_off_is_neither_used_nor_in_the_way(store: MemoryStore, tmp_path: Path) -> None:
    path = backup_of(store, tmp_path / "b.tqb")
    directory = tmp_path / "d"

    def break_off(what: str, _done: int, _size: int) -> None:
        if what == "restored":
            raise StoreFull("as if the disk were full")

    with pytest.raises(StoreFull):
        restore(path, directory, on_progress=break_off)
    with pytest.raises(RestoreUnfinished, match="broken off"):
        open_disk(directory, pair="p", member="a")
    with pytest.raises(RestoreUnfinished):
        open_to_read(directory)
    restore(path, directory)
    open_disk(directory, pair="p", member="a", ballast_bytes=0).close()


@pytest.mark.requirement("R154")  # a store is restored from another directory that no member has
def test_a_directory_is_restored_from_as_well(store: MemoryStore, tmp_path: Path) -> None:
    restore(backup_of(store, tmp_path / "b.tqb"), tmp_path / "one")
    done = restore(tmp_path / "one", tmp_path / "two", member="b")
    assert (done.head.peer, done.records) == ("b", 5)
    assert examine(open_to_read(tmp_path / "two"), None)[0].messages == 8


@pytest.mark.parametrize("mark", [DataMark.SYNCING, DataMark.DAMAGED])
def test_half_a_copy_is_not_restored_from(store: MemoryStore, tmp_path: Path, mark: DataMark) -> None:
    state = decode_state(store.get_meta(state_key(DOMAIN)) or b"")
    state.data = mark
    store.commit(WriteBatch(meta={state_key(DOMAIN): state.encode()}))
    with pytest.raises(CorruptRecord, match=f"is {mark.name} there"):
        restore(backup_of(store, tmp_path / "b.tqb"), tmp_path / "d")

"""Salvage files: what is in them, what is left out, what is kept for how long, and what a full disk does."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import replica.node.salvage
from chaos.sim.kernel.files import SimFiles
from replica.core.state.effects import Salvage
from replica.node.journal_rows import ordinals_of
from replica.node.salvage import Certainty, SalvageFiles
from replica.peer.verify import digest_of
from replica.services.pair.salvage_view import SalvageView
from storage.errors import CorruptRecord, StoreFull
from storage.files import DirectoryFiles
from storage.memory import MemoryStore
from storage.records import ZERO_DIGEST, assemble, build_head
from storage.store import Append, WriteBatch
from tandemq.peer.v1.record_pb2 import EnqueueOp, ExpireOp, RecordHeader, RoleOp, SettleOp, TxnOp
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import FINAL_STATE_REACTED, OUTCOME_ACK, EnqueueBatch

DOMAIN = 7


def filled(*kinds: str, bodies: bytes | None = None) -> MemoryStore:
    """A store with one record of each kind, from log index 1."""
    store = MemoryStore(member="a", instance=b"a" * 16)
    digest = ZERO_DIGEST
    for log_index, kind in enumerate(kinds, 1):
        header = {
            "enqueue": RecordHeader(enqueue=EnqueueOp(queue_id=1, count=1, first_index=log_index)),
            "role": RecordHeader(role=RoleOp(owner="a")),
            "expire": RecordHeader(expire=ExpireOp(lease_ids=[1])),
        }[kind].SerializeToString()
        body = bodies or b"body %d" % log_index if kind == "enqueue" else b""
        head, digest = build_head(
            flags=0, domain=DOMAIN, epoch=3, log_index=log_index, header=header, body=body, previous_digest=digest
        )
        store.commit(WriteBatch(appends=[Append(DOMAIN, log_index, assemble(head, body))]))
    return store


@pytest.fixture(params=["directory", "simulated"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> SalvageFiles:
    simulated = request.param == "simulated"
    kept = SimFiles("simulated", lambda: True) if simulated else DirectoryFiles(tmp_path / "salvage")
    return SalvageFiles(kept, pair="p", member="a")


def bytes_of(files: SalvageFiles, name: str) -> bytes:
    with files.files.read(name) as file:
        return file.read()


def put(files: SalvageFiles, name: str, data: bytes) -> None:
    with files.files.create(name) as file:
        file.write(data)


def test_invariant14_what_is_cut_is_in_the_file_and_says_what_was_acknowledged(files: SalvageFiles) -> None:
    store = filled("role", "enqueue", "enqueue", "expire", "enqueue")
    name = files.write(store, DOMAIN, "main", Salvage(2, 5, 2, "because", 5))
    assert name == "main-3-2-5.salvage"
    (info,) = files.infos()
    assert (info.head.first, info.head.last, info.head.why, info.head.domain) == (2, 5, "because", "main")
    assert (info.foot.records, info.foot.operations) == (4, 3)
    assert (info.foot.acknowledged, info.foot.perhaps, info.foot.unacknowledged) == (1, 1, 1)
    records = list(files.records(name))
    assert [(r.log_index, r.epoch, r.body, r.certainty) for r in records] == [
        (2, 3, b"body 2", Certainty.ACKNOWLEDGED),
        (3, 3, b"body 3", Certainty.PERHAPS),
        (4, 3, b"", Certainty.PERHAPS),
        (5, 3, b"body 5", Certainty.UNACKNOWLEDGED),
    ]


def test_an_operation_is_shown_with_what_is_known_of_it(files: SalvageFiles) -> None:
    store = filled("enqueue", "enqueue", "expire", "enqueue", bodies=EnqueueBatch(queue="q").SerializeToString())
    files.write(store, DOMAIN, "main", Salvage(1, 4, 1, "", 3))
    (info,) = files.infos()
    shown = [(each.log_index, each.acknowledged, each.certainty) for each in SalvageView.of(files, info).operations()]
    assert shown == [
        (1, True, pb.ACKNOWLEDGEMENT_CERTAIN),
        (2, False, pb.ACKNOWLEDGEMENT_PERHAPS),
        (4, False, pb.ACKNOWLEDGEMENT_NONE),
    ]


def test_a_unit_of_work_is_shown_as_what_each_of_its_queues_was_sent(files: SalvageFiles) -> None:
    """Else an import would leave its messages out."""
    batch = MessageBatch(payloads=[b"a", b"b", b"c"], priorities=[1, 2, 3])
    settled = SettleOp(queue_id=2, effects=[{"ranges": [{"first": 5, "count": 1}], "outcome": OUTCOME_ACK}])
    op = TxnOp(
        settles=[settled],
        enqueues=[
            EnqueueOp(queue_id=1, queue="legs", count=1, first_index=4),
            EnqueueOp(queue_id=2, queue="ledger", count=2, first_index=5, first_ordinal=1),
        ],
    )
    header = RecordHeader(txn=op, request_id=bytes(16)).SerializeToString()
    head, _ = build_head(
        flags=0,
        domain=DOMAIN,
        epoch=3,
        log_index=1,
        header=header,
        body=(body := EnqueueBatch(messages=batch).SerializeToString()),
        previous_digest=ZERO_DIGEST,
    )
    store = MemoryStore(member="a", instance=b"a" * 16)
    store.commit(WriteBatch(appends=[Append(DOMAIN, 1, assemble(head, body))]))
    files.write(store, DOMAIN, "main", Salvage(1, 1, 1, ""))
    (info,) = files.infos()
    shown = list(SalvageView.of(files, info).operations())
    assert [(each.operation, each.queue, each.count, each.first_index, list(each.done)) for each in shown] == [
        ("enqueue", "legs", 1, 4, []),
        ("enqueue", "ledger", 2, 5, [0]),
    ]
    stored = [EnqueueBatch.FromString(each.batch) for each in shown]
    assert [(each.queue, list(each.messages.payloads), list(each.messages.priorities)) for each in stored] == [
        ("legs", [b"a"], [1]),
        ("ledger", [b"b", b"c"], [2, 3]),
    ]
    assert [[row.payload for row in each.messages] for each in shown] == [[b"a"], [b"b", b"c"]]


def test_what_was_sent_to_a_macro_queue_is_shown_as_what_its_member_got(files: SalvageFiles) -> None:
    """Else an import would have a member chosen once more (M2)."""
    op = EnqueueOp(queue_id=2, queue="member", macro_id=1, client_id=b"p", first_sequence=1, count=2, first_index=5)
    body = EnqueueBatch(queue="macro", messages=MessageBatch(payloads=[b"a", b"b"])).SerializeToString()
    header = RecordHeader(enqueue=op).SerializeToString()
    head, _ = build_head(
        flags=0, domain=DOMAIN, epoch=3, log_index=1, header=header, body=body, previous_digest=ZERO_DIGEST
    )
    store = MemoryStore(member="a", instance=b"a" * 16)
    store.commit(WriteBatch(appends=[Append(DOMAIN, 1, assemble(head, body))]))
    files.write(store, DOMAIN, "main", Salvage(1, 1, 1, ""))
    (info,) = files.infos()
    (shown,) = SalvageView.of(files, info).operations()
    stored = EnqueueBatch.FromString(shown.batch)
    assert (shown.queue, stored.queue, list(stored.messages.payloads)) == ("member", "member", [b"a", b"b"])


def test_what_a_reaction_cancelled_or_moved_or_a_unit_answered_is_done_with(files: SalvageFiles) -> None:
    """Else an import would send again what its sender has taken back."""
    body = EnqueueBatch(queue="q", messages=MessageBatch(payloads=[b"a", b"b", b"c"])).SerializeToString()
    copy = EnqueueBatch(queue="r", messages=MessageBatch(payloads=[b"x", b"c"])).SerializeToString()
    moved = EnqueueOp(
        queue_id=2,
        queue="r",
        count=2,
        first_index=1,
        moved_from={"queue_id": 7, "ranges": [{"first": 1, "count": 1}]},
        more_moved_from=[{"queue_id": 1, "ranges": [{"first": 3, "count": 1}]}],
        moved_final=FINAL_STATE_REACTED,
    )
    cancelled = {"queue_id": 1, "ranges": [{"first": 1, "count": 1}], "final_state": FINAL_STATE_REACTED}
    records = (
        (RecordHeader(enqueue=EnqueueOp(queue_id=1, count=3, first_index=1), request_id=bytes(16)), body),
        (RecordHeader(txn=TxnOp(removes=[cancelled]), request_id=bytes(16)), b""),
        (RecordHeader(txn=TxnOp(enqueues=[moved]), request_id=bytes(16)), copy),
        (RecordHeader(txn=TxnOp(replies=[{"queue_id": 1, "index": 2}]), request_id=bytes(16)), copy),
    )
    store = MemoryStore(member="a", instance=b"a" * 16)
    for log_index, (header, part) in enumerate(records, 1):
        head, _ = build_head(
            flags=0,
            domain=DOMAIN,
            epoch=3,
            log_index=log_index,
            header=header.SerializeToString(),
            body=part,
            previous_digest=ZERO_DIGEST,
        )
        store.commit(WriteBatch(appends=[Append(DOMAIN, log_index, assemble(head, part))]))
    files.write(store, DOMAIN, "main", Salvage(1, 4, 1, ""))
    (info,) = files.infos()
    shown = [(each.operation, each.queue, list(each.done)) for each in SalvageView.of(files, info).operations()]
    assert shown == [("enqueue", "q", [0, 1, 2]), ("txn", "", []), ("enqueue", "r", []), ("txn", "", [])]


def test_a_file_of_an_older_version_calls_nothing_certainly_unacknowledged(
    files: SalvageFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = msgspec.msgpack.encode

    def older(value: Any) -> bytes:
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return real({name: each for name, each in fields.items() if not name.startswith("unacknowledged")})

    monkeypatch.setattr(replica.node.salvage.msgspec.msgpack, "encode", older)
    name = files.write(filled("enqueue", "enqueue"), DOMAIN, "main", Salvage(1, 2, 1, "", 2))
    assert name is not None
    (info,) = files.infos()
    assert (info.foot.acknowledged, info.foot.perhaps, info.foot.unacknowledged) == (1, 1, 0)
    assert [each.certainty for each in files.records(name)] == [Certainty.ACKNOWLEDGED, Certainty.PERHAPS]


def test_what_nobody_was_told_of_makes_no_file(files: SalvageFiles) -> None:
    assert files.write(filled("role", "expire", "role"), DOMAIN, "main", Salvage(1, 3, 3, "")) is None
    assert files.write(filled("role"), DOMAIN, "main", Salvage(2, 9, 9, "never on disk")) is None
    assert files.infos() == []
    assert files.files.names() == []


def test_the_same_cut_again_keeps_the_first_copy_and_another_one_gets_a_name_of_its_own(files: SalvageFiles) -> None:
    store = filled("enqueue", "enqueue")
    first = files.write(store, DOMAIN, "main", Salvage(1, 2, 2, "first"))
    again = files.write(store, DOMAIN, "main", Salvage(1, 2, 0, "again"))
    other = files.write(filled("role", "enqueue"), DOMAIN, "main", Salvage(1, 2, 0, "other"))
    assert first == again
    assert [info.head.why for info in files.infos()] in (["first", "other"], ["other", "first"])
    assert other == "main-3-1-2-2.salvage"


def test_a_full_disk_refuses_the_cut_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = SalvageFiles(DirectoryFiles(tmp_path / "salvage"), pair="p", member="a")
    real = os.fsync

    def full(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", real)
        raise OSError(errno.ENOSPC, "No space left on device", str(descriptor))

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "salvage").mkdir()
    with pytest.raises(StoreFull, match="No room to copy"):
        files.write(filled("enqueue"), DOMAIN, "main", Salvage(1, 1, 1, ""))
    assert files.files.names() == []
    assert files.write(filled("enqueue"), DOMAIN, "main", Salvage(1, 1, 1, "")) is not None


def test_too_many_files_go_oldest_first_but_never_what_was_acknowledged(
    files: SalvageFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica.node.salvage, "FILES_MAX", 2)
    store = filled(*["enqueue"] * 9)
    for first, acknowledged in ((1, 9), (2, 9), (3, 0), (4, 0), (5, 9)):
        files.write(store, DOMAIN, "main", Salvage(first, 9, acknowledged, ""))
    assert [info.head.first for info in files.infos()] == [1, 2, 5]


def test_what_may_have_been_acknowledged_goes_after_what_certainly_was_not(
    files: SalvageFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica.node.salvage, "FILES_MAX", 2)
    store = filled(*["enqueue"] * 9)
    for first, never in ((1, 0), (2, 2), (3, 0), (4, 4), (5, 0)):
        files.write(store, DOMAIN, "main", Salvage(first, 9, 0, "", never))
    assert [info.head.first for info in files.infos()] == [3, 5]


@pytest.mark.parametrize("at", [3, 20, 200, -30, -3])
def test_damage_is_said_and_never_read_as_something_else(files: SalvageFiles, at: int) -> None:
    name = files.write(filled("enqueue", "enqueue"), DOMAIN, "main", Salvage(1, 2, 2, ""))
    assert name is not None
    data = bytearray(bytes_of(files, name))
    data[at] ^= 1
    put(files, name, data)
    with pytest.raises((CorruptRecord, OSError)):
        list(files.records(name))


def test_any_flipped_byte_of_a_record_is_kept_as_it_is_and_holds_nothing_up(files: SalvageFiles) -> None:
    good = filled("enqueue", "enqueue").read(DOMAIN, 2)
    assert good is not None
    for at in range(len(good)):
        store = filled("enqueue", "enqueue")
        flipped = bytearray(good)
        flipped[at] ^= 0xFF
        store.commit(WriteBatch(cut={DOMAIN: 1}))
        store.commit(WriteBatch(appends=[Append(DOMAIN, 2, bytes(flipped))]))
        name = files.write(store, DOMAIN, "main", Salvage(1, 2, 2, ""))
        assert name is not None
        info = files.info(name)
        assert info is not None
        assert (info.foot.operations, info.foot.acknowledged, info.foot.damaged) == (2, 2, [(1, 2)]), at
        first, second = files.records(name)
        assert (first.damaged, first.body) == (False, b"body 1")
        assert (second.damaged, second.body, second.log_index, second.certainty) == (
            True,
            bytes(flipped),
            2,
            Certainty.ACKNOWLEDGED,
        )
        assert SalvageView.of(files, info)._operation(second).operation == "damaged"
        digest = digest_of(store, DOMAIN, [], 1, 2)
        assert (digest.records, digest.damaged) == (1, [2]), at
        files.files.remove(name)


@pytest.mark.parametrize("trailer", [b"\xff" * 8, b"\x7f" + b"\xff" * 7, bytes(8)])
def test_a_damaged_trailer_leaves_the_file_and_the_others_alone(
    files: SalvageFiles, trailer: bytes, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled("enqueue", "enqueue")
    bad = files.write(store, DOMAIN, "main", Salvage(1, 2, 0, ""))
    assert bad is not None
    put(files, bad, bytes_of(files, bad)[:-8] + trailer)
    monkeypatch.setattr(replica.node.salvage, "FILES_MAX", 0)
    files.write(store, DOMAIN, "main", Salvage(2, 2, 2, ""))
    assert bad in files.files.names()
    assert [info.head.first for info in files.infos()] == [2]
    assert files.unreadable() == [bad]
    assert bad in caplog.text
    with pytest.raises(CorruptRecord, match="last 8 bytes"):
        list(files.records(bad))


def test_a_name_leads_nowhere_else(files: SalvageFiles, tmp_path: Path) -> None:
    (tmp_path / "secret.salvage").write_bytes(b"x")
    assert files.info("../secret.salvage") is None
    assert list(files.records("../secret.salvage")) == []


def test_a_file_of_a_newer_version_is_left_out_of_the_list(files: SalvageFiles, caplog: Any) -> None:
    put(files, "x.salvage", b"TQSALV\x00\x09" + bytes(100))
    assert files.infos() == []
    assert "newer version" in caplog.text


def test_what_a_macro_queue_has_dealt_is_shown_as_what_each_member_was_sent(files: SalvageFiles) -> None:
    """Of one batch, whose messages stand between each other."""
    batch = MessageBatch(payloads=[b"a", b"b", b"c"], group_ids=["x", "y", "x"])
    op = TxnOp(
        deal={"macro_id": 9, "client_id": b"p", "first_sequence": 1, "count": 3},
        enqueues=[
            EnqueueOp(queue_id=1, queue="legs", macro_id=9, count=2, first_index=4, ordinals=[0, 2]),
            EnqueueOp(queue_id=2, queue="ledger", macro_id=9, count=1, first_index=5, ordinals=[1]),
        ],
    )
    assert [list(ordinals_of(each)) for each in op.enqueues] == [[0, 2], [1]]
    body = EnqueueBatch(queue="m", first_sequence=1, messages=batch).SerializeToString()
    header = RecordHeader(txn=op).SerializeToString()
    numbers = {"flags": 0, "domain": DOMAIN, "epoch": 3, "log_index": 1}
    head, _ = build_head(**numbers, header=header, body=body, previous_digest=ZERO_DIGEST)
    store = MemoryStore(member="a", instance=b"a" * 16)
    store.commit(WriteBatch(appends=[Append(DOMAIN, 1, assemble(head, body))]))
    files.write(store, DOMAIN, "main", Salvage(1, 1, 1, ""))
    (info,) = files.infos()
    shown = [EnqueueBatch.FromString(each.batch) for each in SalvageView.of(files, info).operations()]
    assert [(each.queue, list(each.messages.payloads)) for each in shown] == [
        ("legs", [b"a", b"c"]),
        ("ledger", [b"b"]),
    ]

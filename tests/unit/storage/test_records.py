"""The record format: what goes in comes out, and no damage goes unnoticed."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptRecord, NewerFormat, StorageError
from storage.records import (
    FLAG_VOLATILE_BODY,
    FORMAT_VERSION,
    PREFIX_SIZE,
    ZERO_DIGEST,
    assemble,
    build_head,
    head_of,
    is_bare,
    is_body,
    read_prefix,
    read_stored_prefix,
    split,
    split_stored,
    split_stored_head,
    verify,
    verify_stored,
    verify_stored_head,
)

HEADER = b"header"
BODY = b"a body"

# Written by format 1, and to be readable by every later version. Never change it; add one for each new format.
GOLDEN = bytes.fromhex(
    "5451010000000001000000000000000200000000000000030000000600000006461a6d35"
    "8049a8a203c51c9c59fbb0991560c8b1790f99f46865616465726120626f6479"
)
GOLDEN_VOLATILE = bytes.fromhex(
    "5451010100000001000000000000000200000000000000030000000600000006461a6d35"
    "72191b9ad36e1110290cce294a8ee53ef8cc74b3686561646572"
)


def make(
    *, flags=0, domain=1, epoch=2, log_index=3, header=HEADER, body=BODY, previous_digest=ZERO_DIGEST, stored=True
):
    head, _ = build_head(
        flags=flags,
        domain=domain,
        epoch=epoch,
        log_index=log_index,
        header=header,
        body=body,
        previous_digest=previous_digest,
    )
    return assemble(head, body if stored else b"")


def test_the_format_has_not_changed():
    assert make() == GOLDEN
    assert make(flags=FLAG_VOLATILE_BODY, stored=False) == GOLDEN_VOLATILE


def test_the_golden_record_reads_as_it_was_written():
    prefix = verify(GOLDEN, previous_digest=ZERO_DIGEST)
    assert prefix[:6] == (0, 1, 2, 3, len(HEADER), len(BODY))
    _, header, body = split(GOLDEN)
    assert (bytes(header), bytes(body)) == (HEADER, BODY)


@given(
    domain=st.integers(0, 2**32 - 1),
    epoch=st.integers(0, 2**64 - 1),
    log_index=st.integers(0, 2**64 - 1),
    header=st.binary(max_size=200),
    body=st.binary(max_size=200),
    flags=st.sampled_from([0, FLAG_VOLATILE_BODY]),
    previous_digest=st.binary(min_size=16, max_size=16),
    stored=st.booleans(),
)
def test_what_goes_in_comes_out(domain, epoch, log_index, header, body, flags, previous_digest, stored):
    stored = stored or not flags
    record = make(
        flags=flags,
        domain=domain,
        epoch=epoch,
        log_index=log_index,
        header=header,
        body=body,
        previous_digest=previous_digest,
        stored=stored,
    )
    prefix, its_header, its_body = split(record)
    assert (
        verify(record, previous_digest=previous_digest) == verify(memoryview(record)) == prefix == read_prefix(record)
    )
    assert (prefix.flags, prefix.domain, prefix.epoch, prefix.log_index) == (flags, domain, epoch, log_index)
    assert (prefix.header_len, prefix.body_len) == (len(header), len(body))
    assert (bytes(its_header), bytes(its_body)) == (header, body if stored else b"")


@pytest.mark.parametrize(
    "record", [GOLDEN, GOLDEN_VOLATILE, make(flags=FLAG_VOLATILE_BODY), make(header=b"", body=b"")]
)
def test_every_flipped_bit_is_detected(record):
    undetected = []
    for bit in range(len(record) * 8):
        damaged = bytearray(record)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            verify(bytes(damaged))
        except (CorruptRecord, NewerFormat):
            continue
        undetected.append(bit)
    assert undetected == []


@pytest.mark.parametrize("record", [GOLDEN, GOLDEN_VOLATILE])
def test_every_other_length_is_detected(record):
    for length in range(len(record)):
        with pytest.raises(CorruptRecord):
            read_prefix(record[:length])
    with pytest.raises(CorruptRecord):
        read_prefix(record + b"\0")


@given(st.binary(max_size=PREFIX_SIZE * 2))
def test_foreign_bytes_raise_nothing_but_storage_errors(data):
    for start in (b"", b"TQ", b"TQ\x01"):
        with pytest.raises(StorageError):
            verify(start + data)


def test_a_record_chains_to_its_predecessor_only():
    head, digest = build_head(
        flags=0, domain=1, epoch=2, log_index=3, header=HEADER, body=BODY, previous_digest=ZERO_DIGEST
    )
    first = assemble(head, BODY)
    second = make(log_index=4, previous_digest=digest)
    assert verify(first).digest == digest
    verify(second, previous_digest=digest)
    with pytest.raises(CorruptRecord, match=r"digest .* domain 1, epoch 2, log index 4"):
        verify(second, previous_digest=ZERO_DIGEST)


@pytest.mark.parametrize(
    "change",
    [
        {"flags": FLAG_VOLATILE_BODY},
        {"domain": 9},
        {"epoch": 9},
        {"log_index": 9},
        {"header": b"headeR"},
        {"body": b"a bodY"},
        {"body": b""},
        {"previous_digest": b"\1" * 16},
    ],
)
def test_the_digest_covers_everything(change):
    assert verify(make(**change)).digest != verify(make()).digest


def test_a_volatile_record_has_the_same_digest_with_and_without_its_body():
    with_body, without = (make(flags=FLAG_VOLATILE_BODY, stored=stored) for stored in (True, False))
    assert verify(with_body) == verify(without)
    assert len(with_body) == len(without) + len(BODY)


def test_a_body_may_be_missing_only_where_the_flag_says_so():
    with pytest.raises(CorruptRecord, match="promises"):
        read_prefix(make(stored=False))


def test_a_body_is_taken_from_any_buffer():
    for body in (memoryview(BODY), memoryview(bytearray(BODY))):
        assert make(body=body) == GOLDEN


def test_a_newer_format_is_named_as_such():
    newer = bytearray(GOLDEN)
    newer[2] = FORMAT_VERSION + 1
    with pytest.raises(NewerFormat, match=r"format 2.*reads up to 1.*Run the version"):
        verify(bytes(newer))


@pytest.mark.parametrize("body", [b"", b"body"])
@pytest.mark.parametrize("its_header", [b"", b"header"])
def test_a_stored_head_is_split_as_its_record_is(body, its_header):
    head, _ = build_head(
        flags=0, domain=3, epoch=2, log_index=9, header=its_header, body=body, previous_digest=ZERO_DIGEST
    )
    record = assemble(head, body)
    assert head_of(record) == head_of(memoryview(record)) == head
    assert split_stored_head(head) == (3, 2, 9, its_header)
    prefix, header, rest = split_stored(record)
    assert ((prefix.domain, prefix.epoch, prefix.log_index), bytes(header)) == ((3, 2, 9), its_header)
    assert bytes(rest) == body
    assert verify_stored_head(record) == prefix == verify_stored(record) == read_stored_prefix(record)
    for at in range(len(head)):
        bad = bytearray(head)
        bad[at] ^= 1
        with pytest.raises(CorruptRecord):
            split_stored_head(bytes(bad))
        with pytest.raises(CorruptRecord):
            verify_stored_head(bytes(bad) + body)
    for other in (head[:-1], head + b"x", head[:55], b""):
        with pytest.raises(CorruptRecord):
            split_stored_head(other)


def test_a_checksum_that_is_known_is_taken_as_it_is():
    head = {"flags": 0, "domain": 1, "epoch": 2, "log_index": 3, "header": HEADER, "previous_digest": ZERO_DIGEST}
    known = build_head(**head, body=BODY, body_crc=google_crc32c.value(BODY))
    assert known == build_head(**head, body=BODY)
    wrong, _ = build_head(**head, body=BODY, body_crc=google_crc32c.value(BODY) ^ 1)
    with pytest.raises(CorruptRecord, match="The body of a record has CRC32C"):
        verify(assemble(wrong, BODY))
    assert build_head(**head, body=BODY, body_crc=0) != build_head(**head, body=BODY), "0 is a checksum too"


def test_a_damaged_body_is_not_looked_at_where_the_head_is_enough():
    head, _ = build_head(flags=0, domain=3, epoch=2, log_index=9, header=b"", body=b"body", previous_digest=ZERO_DIGEST)
    bad = assemble(head, b"bady")
    assert verify_stored_head(bad).log_index == 9
    assert head_of(bad) == head
    with pytest.raises(CorruptRecord, match="The body of a record has CRC32C"):
        verify_stored(bad)


def test_in_a_directory_of_ours_a_newer_record_is_damage():
    head, _ = build_head(flags=0, domain=3, epoch=2, log_index=9, header=b"", body=b"", previous_digest=ZERO_DIGEST)
    newer = head[:2] + b"\x02" + head[3:]
    for read in (read_prefix, verify):
        with pytest.raises(NewerFormat):
            read(newer)
    for read in (read_stored_prefix, verify_stored, verify_stored_head, split_stored, split_stored_head, is_bare):
        with pytest.raises(CorruptRecord):
            read(newer)


@pytest.mark.parametrize(("body", "stored", "bare"), [(b"", b"", False), (b"b", b"b", False), (b"b", b"", True)])
def test_a_record_is_bare_when_its_body_is_elsewhere(body, stored, bare):
    head, _ = build_head(
        flags=FLAG_VOLATILE_BODY, domain=1, epoch=1, log_index=1, header=b"h", body=body, previous_digest=ZERO_DIGEST
    )
    record = assemble(head, stored)
    assert is_bare(record) == bare
    prefix = read_prefix(record)
    assert is_body(prefix, body)
    assert not is_body(prefix, body + b"x")
    assert not is_body(prefix, b"x")


def test_what_begins_otherwise_is_no_record_whatever_follows():
    head, _ = build_head(flags=0, domain=1, epoch=1, log_index=1, header=b"", body=b"", previous_digest=ZERO_DIGEST)
    for read in (read_prefix, read_stored_prefix, split, is_bare):
        with pytest.raises(CorruptRecord, match="begins with 5452 instead"):
            read(b"TR" + head[2:])
        with pytest.raises(CorruptRecord, match="shorter than its prefix"):
            read(head[:55])
        with pytest.raises(CorruptRecord, match="has format 0"):
            read(head[:2] + b"\x00" + head[3:])
        with pytest.raises(CorruptRecord, match="its prefix promises 56"):
            read(head + b"x")

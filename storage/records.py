"""Decides how one replicated operation looks as bytes and whether bytes are such a record; never where they are kept.

A record is prefix, header, body. Of the 56 bytes of the prefix, big-endian:

    0  magic "TQ"        8  epoch u64         28  body length u32     40  digest, 16 bytes
    2  format u8        16  log index u64     32  body CRC32C u32     56  (header, then body)
    3  flags u8         24  header length     36  head CRC32C u32
    4  domain u32           u32

The head CRC covers prefix and header except itself. The digest is blake2b-128 over the digest of the domain's previous
record, bytes 0 to 36 and the header; the body enters through its CRC. Thus a record without its body still proves
which body it had, and the last digest of a domain stands for all of its history.

To change the format: raise FORMAT_VERSION, and STORE_FORMAT with it (a directory's format decides whether a record's is
newer or damaged), keep reading every earlier one, add golden bytes to the test.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

import google_crc32c

from storage.errors import CorruptRecord, NewerFormat

FORMAT_VERSION = 1
FLAG_VOLATILE_BODY = 1  # the body is described by the prefix and may be missing
_KNOWN_FLAGS = FLAG_VOLATILE_BODY
ZERO_DIGEST = bytes(16)  # what comes before the first record of a domain

_MAGIC = b"TQ"
_COVERED = Struct(">2sBBIQQIII")  # what the digest covers of the prefix: all that comes before the head CRC
_SEAL = Struct(">I16s")  # head CRC, digest
_PREFIX = Struct(">2sBBIQQIIII16s")
PREFIX_SIZE = 56
assert _COVERED.size + _SEAL.size == _PREFIX.size == PREFIX_SIZE
_DIGEST_AT = _COVERED.size + 4
_HEADER_LEN_AT = 24


class Prefix(NamedTuple):
    flags: int
    domain: int
    epoch: int
    log_index: int
    header_len: int
    body_len: int  # of the body as it was, even where it is not stored
    body_crc: int
    head_crc: int
    digest: bytes


def build_head(
    *,
    flags: int,
    domain: int,
    epoch: int,
    log_index: int,
    header: bytes,
    body: bytes | memoryview,
    previous_digest: bytes,
    body_crc: int | None = None,
) -> tuple[bytes, bytes]:
    """Prefix and header as bytes, and the domain's new digest. The body is described, not copied.

    body_crc: its CRC32C, where somebody has computed it already; nobody checks it here.
    """
    assert len(previous_digest) == len(ZERO_DIGEST)
    assert flags & ~_KNOWN_FLAGS == 0
    body_crc = _crc32c(body) if body_crc is None else body_crc
    covered = _COVERED.pack(_MAGIC, FORMAT_VERSION, flags, domain, epoch, log_index, len(header), len(body), body_crc)
    digest = _chain(previous_digest, covered, header)
    seal = _SEAL.pack(_crc32c(covered + digest + header), digest)
    return covered + seal + header, digest


def assemble(head: bytes, body: bytes | memoryview) -> bytes:
    """The record as it is stored and sent; with an empty body, a volatile record as it is stored."""
    return b"".join((head, body))


def read_prefix(record: bytes | memoryview) -> Prefix:
    """The prefix, once magic, format and lengths agree with the bytes at hand. Checksums are left to `verify`."""
    if len(record) < PREFIX_SIZE:
        raise CorruptRecord(f"A record of {len(record)} bytes is shorter than its prefix of {PREFIX_SIZE}")
    magic, version, *fields = _PREFIX.unpack_from(record)
    if magic != _MAGIC:
        raise CorruptRecord(f"A record begins with {magic.hex()} instead of {_MAGIC.hex()}")
    prefix = Prefix(*fields)
    if version > FORMAT_VERSION:
        raise NewerFormat(f"A record has format {version}, this version reads up to {FORMAT_VERSION}", _place(prefix))
    if version < 1:
        raise CorruptRecord("A record has format 0, which does not exist", _place(prefix))
    bare = PREFIX_SIZE + prefix.header_len
    full = bare + prefix.body_len
    if len(record) != full and not (prefix.flags & FLAG_VOLATILE_BODY and len(record) == bare):
        raise CorruptRecord(f"A record has {len(record)} bytes, its prefix promises {full}", _place(prefix))
    return prefix


def is_bare(record: bytes | memoryview) -> bool:
    """Whether a stored record lacks the body that its prefix describes. Raises CorruptRecord."""
    prefix = read_stored_prefix(record)
    return prefix.body_len > 0 and len(record) == PREFIX_SIZE + prefix.header_len


def split(record: bytes | memoryview) -> tuple[Prefix, memoryview, memoryview]:
    """Prefix, header and body; the views share the record's memory. The body is empty where it is not stored."""
    return _parts(record, read_prefix(record))


def verify(record: bytes | memoryview, *, previous_digest: bytes | None = None) -> Prefix:
    """The prefix, once all that can be checked has been; the chain only if the previous digest is given.

    A format that is not ours is reported before any checksum, as nobody knows where that format keeps them.
    """
    raw = record if isinstance(record, bytes) else bytes(record)
    prefix = _verify_head(raw)
    body_at = PREFIX_SIZE + prefix.header_len
    if prefix.flags & ~_KNOWN_FLAGS:
        raise NewerFormat(f"A record has flags {prefix.flags:#04x}, some unknown to this version", _place(prefix))
    # read_prefix let a body be missing only where the flag allows it.
    if (len(raw) > body_at or not prefix.body_len) and (found := _crc32c(raw[body_at:])) != prefix.body_crc:
        raise CorruptRecord(f"The body of a record has CRC32C {found:08x}, not {prefix.body_crc:08x}", _place(prefix))
    if previous_digest is not None:
        expected = _chain(previous_digest, raw[: _COVERED.size], raw[PREFIX_SIZE:body_at])
        if expected != prefix.digest:
            what = (
                f"A record carries digest {prefix.digest.hex()}, after {previous_digest.hex()} comes {expected.hex()}"
            )
            raise CorruptRecord(what, _place(prefix))
    return prefix


def _verify_head(raw: bytes) -> Prefix:
    prefix = read_prefix(raw)
    found = _crc32c(raw[: _COVERED.size] + raw[_DIGEST_AT : PREFIX_SIZE + prefix.header_len])
    if found != prefix.head_crc:
        raise CorruptRecord(f"The head of a record has CRC32C {found:08x}, not {prefix.head_crc:08x}", _place(prefix))
    return prefix


def is_body(prefix: Prefix, body: bytes) -> bool:
    """Whether these bytes are the body that the prefix describes."""
    return len(body) == prefix.body_len and _crc32c(body) == prefix.body_crc


def verify_stored(record: bytes | memoryview, *, previous_digest: bytes | None = None) -> Prefix:
    """As `verify`, for a record of a directory whose own format is ours: a format byte beyond ours is damage there.

    A record is verified before it is stored, so a newer one never gets in. Raises CorruptRecord alone.
    """
    try:
        return verify(record, previous_digest=previous_digest)
    except NewerFormat as error:
        raise CorruptRecord(
            f"{error.what}, in a directory whose records have format 1 to {FORMAT_VERSION}", error.where
        ) from error


def read_stored_prefix(record: bytes | memoryview) -> Prefix:
    """As `read_prefix`, for such a record. Raises CorruptRecord alone."""
    try:
        return read_prefix(record)
    except NewerFormat as error:
        raise CorruptRecord(
            f"{error.what}, in a directory whose records have format 1 to {FORMAT_VERSION}", error.where
        ) from error


def verify_stored_head(record: bytes) -> Prefix:
    """As `verify_stored`, but the body is not looked at: the prefix can be believed. Raises CorruptRecord alone."""
    read_stored_prefix(record)
    return _verify_head(record)


def head_of(record: bytes | memoryview) -> bytes:
    """Prefix and header of a record as it lies there, copied without its body. It judges nothing."""
    return bytes(record[: PREFIX_SIZE + int.from_bytes(record[_HEADER_LEN_AT : _HEADER_LEN_AT + 4], "big")])


def split_stored_head(head: bytes) -> tuple[int, int, int, bytes]:
    """Domain, epoch, log index and header out of what `head_of` gave of a stored record, verified; no more, because
    this is done for many. Raises CorruptRecord alone.
    """
    if len(head) < PREFIX_SIZE:
        raise CorruptRecord(f"A record of {len(head)} bytes is shorter than its prefix of {PREFIX_SIZE}")
    magic, version, _, domain, epoch, log_index, header_len, _, _, crc, _ = _PREFIX.unpack_from(head)
    if magic != _MAGIC or version != FORMAT_VERSION or len(head) != PREFIX_SIZE + header_len:
        raise CorruptRecord(f"A record begins with {head[:4].hex()}, and its head has {len(head)} bytes")
    if (found := google_crc32c.value(head[: _COVERED.size] + head[_DIGEST_AT:])) != crc:
        where = f"it says domain {domain}, epoch {epoch}, log index {log_index}"
        raise CorruptRecord(f"The head of a record has CRC32C {found:08x}, not {crc:08x}", where)
    return domain, epoch, log_index, head[PREFIX_SIZE:]


def split_stored(record: bytes | memoryview) -> tuple[Prefix, memoryview, memoryview]:
    """As `split`, for such a record, once it is verified. Raises CorruptRecord alone."""
    return _parts(record, verify_stored(record))


def _parts(record: bytes | memoryview, prefix: Prefix) -> tuple[Prefix, memoryview, memoryview]:
    view = memoryview(record)
    body_at = PREFIX_SIZE + prefix.header_len
    return prefix, view[PREFIX_SIZE:body_at], view[body_at:]


def _chain(previous_digest: bytes, covered: bytes, header: bytes) -> bytes:
    return blake2b(b"".join((previous_digest, covered, header)), digest_size=len(ZERO_DIGEST)).digest()


def _crc32c(data: bytes | memoryview) -> int:
    # The C extension takes bytes alone.
    crc: int = google_crc32c.value(data if isinstance(data, bytes) else bytes(data))
    return crc


def _place(prefix: Prefix) -> str:
    return f"it says domain {prefix.domain}, epoch {prefix.epoch}, log index {prefix.log_index}"

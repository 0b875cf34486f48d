"""What a member must remember of a domain besides its log: epoch, mark, boundaries, in-sync set. Holds values; decides
nothing.

Written in the same transaction as the log records that it belongs to (reliability.md 6, rule 11). To change the format:
add a field with a default (older files decode), or raise `storage.records.FORMAT_VERSION` when the meaning of a field
changes.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c
import msgspec

from failover.marks import DataMark
from storage.errors import CorruptRecord
from storage.records import ZERO_DIGEST
from storage.seal import seal, unseal

if TYPE_CHECKING:
    from collections.abc import Iterable

HISTORY_MAX = 1000
"""Epoch boundaries kept; each costs 16 bytes in a HELLO, and a peer further behind gets a full transfer."""

_CHECKPOINT = b"TQC\x02"
_FIRST_FORMAT = b"\x00\x00"
"""What every checkpoint without a checksum begins with: a log index below 2**48."""
_CRC, _INDEX = Struct(">I"), Struct(">Q")
_SNAPSHOT_AT = len(_CHECKPOINT) + _CRC.size + _INDEX.size


class Boundary(NamedTuple):
    """Where an epoch begins in the log."""

    epoch: int
    first_index: int


class DomainState(msgspec.Struct, omit_defaults=True):
    """The durable facts of one domain at one member."""

    name: str
    epoch: int = 0
    """Epoch in force here; never falls."""
    owner: str = ""
    """Member that owns the epoch; two owners of one number never follow each other."""
    promised_epoch: int = 0
    """Highest epoch promised or ceded to somebody; frames below it have no effect (P13, P15)."""
    data: DataMark = DataMark.EMPTY
    in_sync_set: list[str] = []
    history: list[tuple[int, int]] = []
    """(epoch, first log index), oldest first, both rising."""
    base_index: int = 0
    """Log index whose digest is known although its record may be gone; the log is dense above it except for what was
    trimmed.
    """
    base_digest: bytes = ZERO_DIGEST
    base_epoch: int = 0
    kept_from: int = 1
    """Every record from here on is held: the journal's retention; live records below it are held one by one."""
    solo_since: int = 0
    """First log index that this member acknowledged alone and the peer has not confirmed since; 0 = none. Durable
    before the first such answer, and 0 again, durably, before the register names the peer
    (`replica.core.mastership.commit_rule`).
    """
    diverged: str = ""
    """Why this copy is DIVERGED; empty: it is not. Only an operator's word takes it back."""
    diverged_at: int = 0
    """Last log index that the peer's history has too, when it diverged; 0 = unknown."""

    salvaged: tuple[int, int] = (0, 0)
    """First and last log index that were copied when this member gave way: the cut that follows leaves it out."""

    def own_epoch(self, epoch: int, owner: str, in_sync_set: frozenset[str]) -> None:
        """An epoch begins here; it ends having DIVERGED, to which only an operator's word leads."""
        self.epoch, self.owner, self.diverged = epoch, owner, ""
        self.in_sync_set = sorted(in_sync_set)

    def follow_epoch(self, epoch: int, owner: str) -> None:
        """The epoch of somebody else."""
        self.epoch, self.owner = epoch, owner

    def promise(self, epoch: int) -> None:
        """No claim of ours takes that number any more."""
        self.promised_epoch = epoch

    def name_in_sync(self, members: frozenset[str]) -> None:
        """Who holds everything acknowledged, as the register has it."""
        self.in_sync_set = sorted(members)

    def answer_alone_from(self, log_index: int) -> None:
        """0: nothing is alone any more."""
        self.solo_since = log_index

    def diverge(self, why: str, at: int) -> None:
        """Until an operator chooses."""
        self.diverged, self.diverged_at = why, at

    def yield_to(self, owner: str, first: int, last: int) -> None:
        """The owner's history stands, also of an epoch whose number both had; ours was copied from first to last."""
        self.owner = owner
        self.diverged, self.diverged_at, self.solo_since = "", 0, 0
        self.salvaged = (first, last)

    def forget_alone(self) -> None:
        """A master's history has taken the place of what was acknowledged alone."""
        self.solo_since, self.salvaged = 0, (0, 0)

    def set_base(self, log_index: int, digest: bytes, epoch: int) -> None:
        """Of the log, as it is to be opened at the next start."""
        self.base_index, self.base_digest, self.base_epoch = log_index, digest, epoch

    def keep_from(self, log_index: int) -> None:
        """Records below are held one by one, if at all."""
        self.kept_from = log_index

    def note_history(self, history: Iterable[Boundary]) -> None:
        """The log's boundaries."""
        self.history = [(boundary.epoch, boundary.first_index) for boundary in history]

    def encode(self) -> bytes:
        """Bytes for the meta table."""
        return seal(msgspec.msgpack.encode(self))


def decode_state(data: bytes) -> DomainState:
    """The state that `encode` wrote. Raises CorruptRecord for anything else."""
    value = unseal(data, "facts of a domain")
    try:
        return msgspec.msgpack.decode(value, type=DomainState)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptRecord(f"The facts of a domain cannot be read: {error}") from error


def state_key(domain: int) -> str:
    """Where the state of a domain stands in the meta table."""
    return f"domain/{domain:08x}/state"


def checkpoint_key(domain: int) -> str:
    """Where the last snapshot of a domain's queues stands; see `encode_checkpoint`."""
    return f"domain/{domain:08x}/checkpoint"


def encode_checkpoint(log_index: int, snapshot: bytes) -> bytes:
    """What stands there: the queues' state at that log index, and a checksum over all of it.

    LMDB has none, and the snapshot's own digest is that of the state that it is read as, flipped bits and all.
    """
    place = _INDEX.pack(log_index)
    return b"".join((_CHECKPOINT, _CRC.pack(_crc_of(place, snapshot)), place, snapshot))


def decode_checkpoint(stored: bytes) -> tuple[int, bytes]:
    """Log index and snapshot. Raises CorruptRecord. Before there was a checksum, the log index came first."""
    if stored.startswith(_FIRST_FORMAT) and len(stored) >= _INDEX.size:
        return _INDEX.unpack_from(stored)[0], stored[_INDEX.size :]
    if len(stored) < _SNAPSHOT_AT or not stored.startswith(_CHECKPOINT):
        raise CorruptRecord(f"A checkpoint of {len(stored)} bytes begins with {stored[:4].hex()}")
    promised, place, snapshot = _CRC.unpack_from(stored, 4)[0], stored[8:_SNAPSHOT_AT], stored[_SNAPSHOT_AT:]
    if (found := _crc_of(place, snapshot)) != promised:
        raise CorruptRecord(f"A checkpoint has CRC32C {found:08x}, not {promised:08x}")
    return _INDEX.unpack(place)[0], snapshot


def _crc_of(place: bytes, snapshot: bytes) -> int:
    crc: int = google_crc32c.extend(google_crc32c.value(place), snapshot)
    return crc


def data_of(number: int) -> DataMark:
    """The mark behind a wire number; one that this version does not know counts as damaged: it has no vote."""
    try:
        return DataMark(number)
    except ValueError:
        return DataMark.DAMAGED

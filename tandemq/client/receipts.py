"""Decides how an answer to a batch reaches the caller: one Receipt a message, kept as runs until somebody looks.

It never talks to a member.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import overload

from tandemq.errors import Refused, TandemqError, to_error
from tandemq.v1.common_pb2 import ResponseHeader
from tandemq.v1.queue_service_pb2 import EnqueueResult

_ID = struct.Struct(">IIHIH")


class Level(IntEnum):
    """Where an acknowledged operation is known to be. Values of tandemq.v1.Level."""

    UNSPECIFIED = 0
    LOCAL = 1  # fsynced on the master
    PAIR_RECV = 2  # and in memory of the replica; or volatile and in memory of both
    PAIR_SYNC = 3  # fsynced on both members
    PAIR_APPLIED = 4  # and with equal state digests


class Warned(IntEnum):
    """What the caller should know although it was done. Values of tandemq.v1.Warning."""

    NOTHING = 0
    PERSISTENCE_DOWNGRADED = 1  # a persistent message entered a volatile queue and is kept in memory only


def level_of(value: int) -> Level:
    """The level, UNSPECIFIED for one that only newer clients know."""
    return Level(value) if value in Level._value2member_map_ else Level.UNSPECIFIED


def warning_of(value: int) -> Warned:
    """The warning, NOTHING for one that only newer clients know."""
    return Warned(value) if value in Warned._value2member_map_ else Warned.NOTHING


def domain_number(name: str) -> int:
    """The number of a domain in message ids: the first 4 bytes of blake2b of its name, never 0; 0 without a name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big") or 1 if name else 0


def message_id(domain: int, epoch: int, log_index: int, ordinal: int) -> bytes:
    """The 16 bytes that name a message: domain (u32), epoch (u32), log index (u48), ordinal (u16); big-endian.

    Empty when the number of the domain is not known (0).
    """
    if not domain:
        return b""
    return _ID.pack(domain, epoch & 0xFFFFFFFF, log_index >> 32, log_index & 0xFFFFFFFF, ordinal)


@dataclass(slots=True)  # not frozen, which costs three times as much to make
class Receipt:
    """An accepted message: ordered, and held by `copies` members."""

    index: int  # ordering index in its queue, from 1
    id: bytes  # 16 bytes; empty when the member did not say enough to build it
    epoch: int
    copies: int  # members that hold it durably
    level: Level
    duplicate: bool  # it was accepted earlier; this repeats the first answer
    warning: Warned
    handle: bytes = b""  # to ask what becomes of it; empty when the queue's type completes with this receipt


@dataclass(frozen=True, slots=True)
class ReceiptRun:
    """Accepted messages with one answer: the n-th has index `first_index + n`."""

    position: int  # of the first one in what was sent
    count: int
    first_index: int
    epoch: int
    copies: int
    level: Level
    duplicate: bool
    warning: Warned
    domain: int = 0  # number in message ids; 0 when unknown
    log_index: int = 0
    ordinal: int = 0  # of the first one in its record
    ids: tuple[bytes, ...] = ()  # when they were given one by one
    handles: bytes = b""  # first half of their handles

    def receipt(self, offset: int) -> Receipt:
        """Of the message at `position + offset`."""
        named = (
            self.ids[offset] if self.ids else message_id(self.domain, self.epoch, self.log_index, self.ordinal + offset)
        )
        index = self.first_index + offset
        handle = self.handles + index.to_bytes(8, "big") if self.handles else b""
        return Receipt(index, named, self.epoch, self.copies, self.level, self.duplicate, self.warning, handle)

    def moved(self, by: int) -> ReceiptRun:
        """The same run at another position."""
        return replace(self, position=self.position + by) if by else self


class Receipts(Sequence[Receipt]):
    """The answers to many messages, in the order they were sent. Costs memory per run, not per message.

    Reading a refused entry raises its error.
    """

    __slots__ = ("_count", "_starts", "errors", "runs")

    def __init__(self, count: int, runs: Sequence[ReceiptRun], errors: dict[int, TandemqError]) -> None:
        self._count = count
        self.runs = tuple(runs)  # by position
        self._starts = [run.position for run in self.runs]
        self.errors = errors  # by position

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, position: int) -> Receipt: ...
    @overload
    def __getitem__(self, position: slice) -> list[Receipt]: ...
    def __getitem__(self, position: int | slice) -> Receipt | list[Receipt]:
        if isinstance(position, slice):
            return [self[place] for place in range(*position.indices(self._count))]
        place = position + self._count if position < 0 else position
        if not 0 <= place < self._count:
            raise IndexError(position)
        if place in self.errors:
            raise self.errors[place]
        run = self.runs[bisect_right(self._starts, place) - 1]
        return run.receipt(place - run.position)

    def __iter__(self) -> Iterator[Receipt]:
        if self.errors:
            yield from (self[place] for place in range(self._count))
            return
        for run in self.runs:
            yield from (run.receipt(offset) for offset in range(run.count))

    def __repr__(self) -> str:
        return f"Receipts({self._count} messages, {len(self.errors)} refused)"


class PartlyRefused(Refused):
    """Some of many messages were not accepted; `receipts` tells which, and holds the answers of the others."""

    def __init__(self, receipts: Receipts) -> None:
        place, first = next(iter(sorted(receipts.errors.items())))
        super().__init__(
            first.reason,
            f"{len(receipts.errors)} of {len(receipts)} messages; the first is number {place}: {first.message}",
        )
        self.receipts = receipts


def checked(receipts: Receipts) -> Receipts:
    """The receipts when all is accepted; else raises the one error that all share, or PartlyRefused."""
    if not receipts.errors:
        return receipts
    if len(receipts.errors) == len(receipts) and len({id(error) for error in receipts.errors.values()}) == 1:
        raise receipts.errors[0]
    raise PartlyRefused(receipts)


def receipts_of(
    header: ResponseHeader, results: Sequence[EnqueueResult], *, duplicate: bool, epoch: int = 0
) -> Receipts:
    """Of a call that is answered message by message. `epoch`: which one ordered it; 0: that of the header."""
    runs = [
        ReceiptRun(
            position=place,
            count=1,
            first_index=result.index,
            epoch=epoch or header.epoch,
            copies=header.copies,
            level=level_of(header.level),
            duplicate=duplicate or result.duplicate,
            warning=warning_of(result.warning),
            ids=(result.id,),
            # What has ended within the wait may have an answer, which its sender asks for by the handle.
            handles=b"" if result.completed and not result.final_state else result.handle[:8],
        )
        for place, result in enumerate(results)
        if not result.HasField("error")
    ]
    errors = {place: to_error(result.error) for place, result in enumerate(results) if result.HasField("error")}
    return Receipts(len(results), runs, errors)

"""Where the logs of two copies end, and which of them holds more; never decides which member goes first.

Two members of one committed set hold everything that was acknowledged, as long as both disks kept what they said was
written. A disk that loses its last writes in silence makes its copy shorter and leaves no other trace. So the ends are
compared (P20): what lies beyond the shorter one was ordered by a master that both followed, and may be acknowledged.

The first record of an epoch is written by a claim, whether or not that mastership ever served: a tail of such records
holds nothing that a client was answered. `LogEnd.ordered` leaves it out, so that a claim which failed makes no copy
longer. It also keeps epochs from running up: members that claim in turn do not change the comparison (P8).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Ends(StrEnum):
    """How the own log's end compares to the peer's, as the promotion table reads it."""

    EQUAL = "equal"
    OWN_LONGER = "own is longer"
    PEER_LONGER = "peer's is longer"
    DIFFERENT = "different"  # one (epoch, log index), two digests


@dataclass(frozen=True, slots=True)
class LogEnd:
    epoch: int = 0  # of the last record; 0 = no record is known
    log_index: int = 0
    digest: bytes = b""  # chained, at log_index; empty = unknown
    ordered: tuple[int, int] = (0, 0)  # (epoch, log index) of the last record that is not an epoch's first


UNKNOWN_END = LogEnd()


def log_end(boundaries: Sequence[tuple[int, int]], last_index: int, digest: bytes) -> LogEnd:
    """The end of a log with these (epoch, first log index), oldest first, and its last log index."""
    ordered_index = last_index
    for epoch, first_index in reversed(boundaries):
        if first_index < ordered_index:
            return LogEnd(boundaries[-1][0], last_index, digest, (epoch, ordered_index))
        ordered_index = first_index - 1
    # Nothing but first records is known: what lies below belongs to an epoch that the boundaries do not name.
    return LogEnd(boundaries[-1][0] if boundaries else 0, last_index, digest, (0, ordered_index))


def compare(own: LogEnd, peer: LogEnd) -> Ends:
    """Which log holds more. Both members find the same from the same two ends, each from its own side."""
    if own.ordered != peer.ordered:
        return Ends.OWN_LONGER if own.ordered > peer.ordered else Ends.PEER_LONGER
    known = own.digest and peer.digest and own.digest != peer.digest
    if known and (own.epoch, own.log_index) == (peer.epoch, peer.log_index):
        return Ends.DIFFERENT
    return Ends.EQUAL

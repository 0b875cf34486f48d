"""Says what a backup of a member holds, and how its rows become those of a restored one; reads a view, writes nothing.

A restored copy never counts as current, for it cannot know what was acknowledged after it was taken: every domain that
has another member is STALE in it, so that it follows, and is brought up to date by a transfer. Where no current copy is
left an operator's word makes it the master, as with every other stale copy (`Mastership.force`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from failover.marks import DataMark
from failover.promotion import unrecorded_epoch
from failover.register import EPOCH_LAST
from replica.core.state.durable import decode_state, state_key
from replica.node.members import LOCAL, domain_number
from replica.peer.identity.incarnation import INCARNATION, KNOWN
from storage.backup import FRAME_BYTES, BackupHead, DomainHead, Packer
from storage.errors import CorruptRecord
from storage.records import FORMAT_VERSION, read_stored_prefix
from storage.seal import unseal
from storage.store import META_INSTANCE, RESERVED_META, STORE_FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from replica.core.state.durable import DomainState
    from storage.store import View

META_BATCH = 64
_OF_DOMAIN = re.compile(r"domain/([0-9a-f]{8})/")
LEFT_BEHIND = ("operator/maintenance", KNOWN)
"""An order to one member at one time; which processes ran on the directory that was backed up."""


def states_in(items: Iterable[tuple[str, bytes]]) -> dict[int, DomainState]:
    """The facts of every domain, by number. Raises CorruptRecord."""
    found = {}
    for key, value in items:
        number = _number_of(key)
        if number is not None and key == state_key(number):
            found[number] = decode_state(value)
    return dict(sorted(found.items()))


def _number_of(key: str) -> int | None:
    """The domain that a named value belongs to."""
    match = _OF_DOMAIN.match(key)
    return int(match[1], 16) if match else None


def head_of(
    view: View, *, pair: str, member: str, peer: str, product: str, time_ms: int, size: int, whole: bool
) -> BackupHead:
    """What the view holds; `whole`: as far as the member knew. Raises CorruptRecord when the store is not whole."""
    meta = dict(view.meta_items())
    counts = view.domains()
    states = states_in(meta.items())
    if unknown := counts.keys() - states.keys():
        raise CorruptRecord(f"There are records of domain {min(unknown):#x}, and nothing that says what it is")
    domains = []
    for number, state in states.items():
        last = view.last(number)
        epoch, index, digest = state.epoch, state.base_index, state.base_digest
        if last is not None and (prefix := read_stored_prefix(last)).log_index > index:
            epoch, index, digest = max(epoch, prefix.epoch), prefix.log_index, prefix.digest
        count = counts.get(number, 0)
        domains.append(DomainHead(number, state.name, epoch, index, digest, state.data.name, count))
    start = meta.get(INCARNATION)
    return BackupHead(
        pair=pair,
        member=member,
        peer=peer,
        instance=meta.get(META_INSTANCE, b""),
        incarnation=int.from_bytes(unseal(start, "number of the last start"), "big") if start is not None else 0,
        product=product,
        store_format=STORE_FORMAT,
        record_format=FORMAT_VERSION,
        time_ms=time_ms,
        whole=whole and all(state.data.is_good or not pair or state.name == LOCAL for state in states.values()),
        domains=tuple(domains),
        bytes_estimate=size,
    )


def pieces(view: View, head: BackupHead, packer: Packer) -> Iterator[bytes]:
    """The bytes of the backup, about a frame at a time; one that is large is as large as its record or value."""
    yield packer.begin(head)
    kept = [item for item in view.meta_items() if item[0] not in RESERVED_META]
    for at in range(0, len(kept), META_BATCH):
        yield packer.meta(kept[at : at + META_BATCH])
    for domain in head.domains:
        at = 0
        while rows := view.scan(domain.number, at, limit_bytes=FRAME_BYTES):
            yield packer.records(domain.number, rows)
            at = rows[-1][0] + 1
    yield packer.end()


def restored_meta(head: BackupHead, member: str, key: str, value: bytes) -> bytes | None:
    """What a named value of the backup becomes in a directory of `member`; None: it stays behind."""
    if key in RESERVED_META or key in LEFT_BEHIND:
        return None
    number = _number_of(key)
    if number is None:
        return value
    if not belongs(head, member, number):
        return None
    if key != state_key(number):
        return value
    state = decode_state(value)
    if head.pair and state.name != LOCAL:
        if state.data is not DataMark.EMPTY:
            state.data = DataMark.STALE
    else:
        # Nobody else knows which epochs were started after the backup: ids of messages are made of them, so none of
        # those may be started again. What no peer has cannot be older than anything: the mark stays.
        above = unrecorded_epoch(max(state.epoch, state.promised_epoch), member, "")
        state.promised_epoch = max(state.promised_epoch, above if above < EPOCH_LAST else 0)
    return state.encode()


def belongs(head: BackupHead, member: str, domain: int) -> bool:
    """Whether a domain of the backup is one of this member's: its `local` is each member's own."""
    return member == head.member or domain != domain_number(LOCAL)

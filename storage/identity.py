"""Decides whether a directory belongs to a member of a pair; never opens it."""

from __future__ import annotations

from collections.abc import Mapping

from storage.errors import CorruptRecord, NewerFormat, WrongPair
from storage.store import META_FORMAT, META_INSTANCE, META_MEMBER, META_PAIR, STORE_FORMAT


def new_identity(pair: str, member: str, instance: bytes) -> dict[str, bytes]:
    """What goes into the meta of a new store. `instance` marks this copy off from an earlier or restored one."""
    return {
        META_FORMAT: b"%d" % STORE_FORMAT,
        META_PAIR: pair.encode(),
        META_MEMBER: member.encode(),
        META_INSTANCE: instance,
    }


def check_identity(found: Mapping[str, bytes | None], pair: str, member: str, where: str) -> None:
    """Raises NewerFormat, CorruptRecord or WrongPair; the format first, as it decides what the rest means."""
    version = found.get(META_FORMAT)
    if version is None or not version.isdigit():
        raise CorruptRecord("The directory does not say in which format it is", where)
    if int(version) > STORE_FORMAT:
        raise NewerFormat(f"The directory has format {int(version)}, this version reads up to {STORE_FORMAT}", where)
    its_pair, its_member = found.get(META_PAIR), found.get(META_MEMBER)
    if its_pair is None or its_member is None or found.get(META_INSTANCE) is None:
        raise CorruptRecord("The directory does not say which member it belongs to", where)
    if (its_pair, its_member) != (pair.encode(), member.encode()):
        owner = f"member {its_member.decode(errors='replace')} of pair {its_pair.decode(errors='replace')}"
        raise WrongPair(f"The directory belongs to {owner}, this is member {member} of pair {pair}", where)

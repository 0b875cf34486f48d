"""Credentials of a development pair: each of its processes has some that can be used, and so has its user.

They are made once and kept; what cannot be used any more, or would end soon, is made anew at the next start. It never
touches those of anybody else, and decides nothing about what they are good for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tandemq.credentials import authority as developers
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.files import read
from tandemq.credentials.reading import shown
from tandemq.credentials.sound import problems

LASTS = timedelta(days=365)
LEFT = timedelta(days=90)
"""What a certificate must still be valid at a start: a pair may run for long, and members warn two weeks before."""


def prepare(directory: Path, authority: Path, people: Mapping[str, str]) -> list[str]:
    """Makes what is missing below `directory`; returns for whom. Raises BadCredentials, OSError.

    `people`: who (`member/PAIR/NAME`, ...), by the name of their directory. `authority`: made where there is none.
    """
    known = developers.ensure(authority).read_bytes()
    made = [name for name, who in people.items() if not _good(directory / name, who, known)]
    for name in made:
        developers.issue(authority, people[name], directory / name, lasts=LASTS)
    return made


def _good(directory: Path, who: str, known: bytes) -> bool:
    """Whether they can be used as they are, and go with what the authority is now (`tandemq cert rotate`)."""
    if not directory.is_dir():
        return False
    try:
        material = read(directory)
        found = shown(material.chain)
        unsound = any(problem for _, problem in problems(material, directory))
    except (BadCredentials, ValueError):
        return False
    return found.who == who and material.authority == known and not unsound and found.ends - LEFT > datetime.now(UTC)

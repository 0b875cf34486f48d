"""`docs/ARCHITECTURE.md` tells which files of the core one batch, one delivery, one handoff and one takeover enter.

Measured at one member of the pair of the scripts; `REWRITE=1 pytest tests/test_walks.py` writes the section anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from tests.support import script
from tests.support.clients import Producer, Reader, create
from tests.support.member import Member
from tests.support.pair import Pair

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ARCHITECTURE.md"
BEGIN, END = "<!-- walks -->\n", "<!-- end of walks -->"
FOLDERS = ("replica/core/", "replica/machine/", "replica/node/steps.py", "failover/")
LINE_MAX = 190


def member_of(frame: FrameType | None) -> str:
    """In whose code a frame is."""
    while frame is not None:
        if isinstance(owner := frame.f_locals.get("self"), Member):
            return owner.name
        frame = frame.f_back
    return ""


@contextmanager
def entered(member: str, found: dict[str, None]) -> Iterator[None]:
    """Files of the core that the member enters until the block ends, in the order in which it does."""

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        name = frame.f_code.co_filename.removeprefix(f"{ROOT}/")
        if name.startswith(FOLDERS) and name not in found and member_of(frame) == member:
            found[name] = None

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def begun() -> tuple[Pair, Producer]:
    pair = Pair().start()
    create(pair)
    producer = Producer(pair, "p")
    producer.send(pair.a)
    pair.settle(1_000)
    return pair, producer


def batch(found: dict[str, None]) -> None:
    pair, producer = begun()
    with entered("a", found):
        producer.send(pair.a)
        pair.quiesce()
    assert len(producer.acked) == 2


def delivery(found: dict[str, None]) -> None:
    pair, _ = begun()
    reader = Reader(pair)
    with entered("a", found):
        reader.attach(pair.a, 1)
        pair.quiesce()
    assert len(reader.delivered) == 1


def handoff(found: dict[str, None]) -> None:
    pair, _ = begun()
    with entered("a", found):
        pair.a.hand_over()
        pair.settle(1_000)
    assert pair.master is pair.b


def takeover(found: dict[str, None]) -> None:
    pair, _ = begun()
    with entered("b", found):
        pair.crash(pair.a)
        pair.b.lost()
        pair.settle(3_000)
    assert pair.master is pair.b


WALKS: dict[str, tuple[str, Callable[[dict[str, None]], None]]] = {
    "One batch": ("at its master, until its client has the answer", batch),
    "One delivery": ("at the master, from the credit of a consumer to its message", delivery),
    "One handoff": ("at the member that hands over, until the other one serves", handoff),
    "One takeover": ("at the survivor, from the loss of the master until it serves", takeover),
}


def told(name: str) -> list[str]:
    """The lines of one walk: what it is, how many files, and those, by package in the order in which it enters them."""
    what, walk = WALKS[name]
    found: dict[str, None] = {}
    walk(found)
    packages: dict[str, list[str]] = {}
    for path in found:
        folder, _, file = path.removeprefix("replica/").removesuffix(".py").rpartition("/")
        packages.setdefault(folder, []).append(file)
    ours = sum(len(files) for folder, files in packages.items() if not folder.startswith("machine"))
    lines = [f"**{name}**, {what}: {ours} files, and {len(found) - ours} of the machine.", ""]
    for folder, files in packages.items():
        line = f"- `{folder}`: {', '.join(files)}"
        assert len(line) <= LINE_MAX, line
        lines.append(line)
    return [*lines, ""]


def section() -> str:
    return "\n".join(line for name in WALKS for line in told(name))


def test_the_walks_on_the_page_are_those_that_are_walked() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    now = before + BEGIN + section() + END + rest.split(END)[1]
    if script.is_rewriting() and now != page:
        PAGE.write_text(now, encoding="utf-8")
        pytest.skip("rewritten: read the difference before it is committed")
    assert now == page, "REWRITE=1 pytest tests/test_walks.py writes it"

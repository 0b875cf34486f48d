"""Which entries of a log count, whatever else lies in its blocks."""

from __future__ import annotations

import msgspec
import pytest

from storage.doubt import EndOfLog
from storage.errors import CorruptRecord
from storage.log_format import (
    BLOCK_BYTES,
    Content,
    LogState,
    blocks_of,
    content_of,
    decode_state,
    encode_entry,
    encode_first_block,
    encode_state,
)
from storage.store import Append

LOG, OTHER = b"l" * 16, b"o" * 16

# As version 1 writes them, and as every later one must read them. Never change them; add some for each new version.
GOLDEN_FIRST = bytes.fromhex("54514c4f47016c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c76a8eb61")
GOLDEN_ENTRY = bytes.fromhex(
    "5451454e6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c00000000000000070000000ce4859b4b9291930102c4017881a16bc0"
)
GOLDEN_STATE = bytes.fromhex("6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c6c0000000000000005")


def content(number: int, size: int = 10) -> Content:
    return Content([Append(1, number, b"x" * size)], {"k": b"%d" % number, "gone": None})


def entry(number: int, size: int = 10, log_id: bytes = LOG) -> bytes:
    return encode_entry(log_id, number, content(number, size))


def read(*entries: bytes, folded: int = 0) -> tuple[list[int], EndOfLog]:
    data = encode_first_block(LOG) + b"".join(entries)
    found = content_of(data, LogState(LOG, folded), "here")
    assert [each.content for each in found.entries] == [
        content(each.number, size_of(each.content)) for each in found.entries
    ]
    assert all(each.end % BLOCK_BYTES == 0 for each in found.entries)
    return [each.number for each in found.entries], found.end


def size_of(found: Content) -> int:
    return len(found.appends[0].record)


def test_the_format_has_not_changed() -> None:
    one = Content([Append(1, 2, b"x")], {"k": None})
    assert encode_first_block(LOG) == GOLDEN_FIRST.ljust(BLOCK_BYTES, b"\0")
    assert encode_entry(LOG, 7, one) == GOLDEN_ENTRY.ljust(BLOCK_BYTES, b"\0")
    assert encode_state(LogState(LOG, 5)) == GOLDEN_STATE
    data = b"".join(each.ljust(BLOCK_BYTES, b"\0") for each in (GOLDEN_FIRST, GOLDEN_ENTRY))
    found = content_of(data, LogState(LOG, 6), "here")
    assert [(each.number, each.content) for each in found.entries] == [(7, one)]


@pytest.mark.parametrize(("size", "blocks"), [(0, 0), (1, 1), (4096, 1), (4097, 2), (8192, 2)])
def test_whole_blocks(size: int, blocks: int) -> None:
    assert blocks_of(size) == blocks
    assert len(encode_first_block(LOG)) == len(entry(1)) == BLOCK_BYTES
    assert len(entry(1, 2 * BLOCK_BYTES)) == 3 * BLOCK_BYTES


def test_entries_above_what_the_database_holds_count() -> None:
    entries = entry(3), entry(4, 9_000), entry(5)
    assert read(*entries, folded=2) == ([3, 4, 5], EndOfLog(5, False))
    assert read(*entries, folded=4) == ([5], EndOfLog(5, False))
    assert read(*entries, folded=5) == ([], EndOfLog(5, False))
    assert read(*entries, folded=9) == ([], EndOfLog(9, False))
    assert read(folded=7) == ([], EndOfLog(7, False))
    assert read(bytes(3 * BLOCK_BYTES)) == ([], EndOfLog(0, False))


@pytest.mark.parametrize("numbers", [(2, 4), (3,), (2, 3, 5), (2, 2)])
def test_they_go_on_without_a_gap(numbers: tuple[int, ...]) -> None:
    with pytest.raises(CorruptRecord, match="goes on with entry"):
        read(*map(entry, numbers), folded=1)


def test_entries_of_another_log_do_not_count_though_they_are_whole() -> None:
    assert read(entry(1), entry(2, log_id=OTHER), entry(2)) == ([1, 2], EndOfLog(2, False))
    assert read(entry(1), entry(2, log_id=OTHER)) == ([1], EndOfLog(1, False))
    with pytest.raises(CorruptRecord, match="not the commit log that the database names"):
        content_of(encode_first_block(OTHER) + entry(1), LogState(LOG, 0), "here")


@pytest.mark.parametrize("at", [24, 28, 32, 36, 45])
def test_the_entry_after_the_last_may_be_torn_and_is_seen(at: int) -> None:
    torn = bytearray(entry(2))
    torn[at + 3] ^= 1
    expected = EndOfLog(1, at != 24)  # where its number is damaged nobody knows which one it was
    assert read(entry(1), bytes(torn)) == ([1], expected)
    assert read(entry(1), entry(2), bytes(torn)) == ([1, 2], EndOfLog(2, at == 24)), "else an older one"


@pytest.mark.parametrize("cut", [1, 35, 36, 40, 4095])
def test_an_entry_at_the_end_of_a_short_file_is_none(cut: int) -> None:
    whole = entry(2, 5_000)
    numbers, end = read(entry(1), whole[:cut])
    assert (numbers, end) == ([1], EndOfLog(1, cut >= 36)), "torn, where as much is there as says which one it is"


def test_an_entry_that_is_whole_and_no_content_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(msgspec.msgpack, "encode", lambda _: b"\x01")
        bad = entry(2)
    with pytest.raises(CorruptRecord, match="Entry 2 of the commit log is whole and cannot be read"):
        read(entry(1), bad)


def test_what_the_database_says_of_its_log() -> None:
    state = LogState(LOG, 1 << 40)
    assert decode_state(encode_state(state), "here") == state
    for other in (b"", encode_state(state) + b"x", encode_state(state)[:-1]):
        with pytest.raises(CorruptRecord, match=f"has {len(other)} bytes"):
            decode_state(other, "here")

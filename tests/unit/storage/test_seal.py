"""A value is given back as it was sealed, or not at all; one from before the seal as it is."""

from __future__ import annotations

import pytest

from storage.errors import CorruptRecord
from storage.seal import seal, unseal


@pytest.mark.parametrize("value", [b"", b"x", b"\x81\xa1k\x01" * 100])
def test_what_was_sealed_is_given_back(value: bytes) -> None:
    assert unseal(seal(value), "k") == value
    assert len(seal(value)) == len(value) + 8


def test_every_flipped_bit_and_every_cut_is_found() -> None:
    sealed = seal(b"an epoch")
    for at in range(4, len(sealed)):
        for bit in range(8):
            bad = bytearray(sealed)
            bad[at] ^= 1 << bit
            with pytest.raises(CorruptRecord, match="The epoch fails its checksum"):
                unseal(bytes(bad), "epoch")
    for size in range(4, len(sealed)):
        with pytest.raises(CorruptRecord):
            unseal(sealed[:size], "epoch")


@pytest.mark.parametrize("old", [b"", b"\x80", b"\x82\xa1a\x01\xa1b\x02", b"TQV\x02...."])
def test_a_value_of_before_is_taken_as_it_is(old: bytes) -> None:
    assert unseal(old, "k") == old

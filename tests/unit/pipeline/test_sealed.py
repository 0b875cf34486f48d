"""A file of the lake's own proves every bit of itself."""

from __future__ import annotations

import pytest

from pipeline.sealed import opened, sealed

VALUE = {"name": "lake-1", "rows": [1, 2], "heads": True, "text": "ä", "nothing": None, "share": 0.25}


def test_what_was_sealed_is_opened() -> None:
    text = sealed(VALUE)
    assert opened(text, strict=True) == VALUE
    assert sealed(opened(text, strict=True)) == text
    assert sealed({**VALUE, "digest": "old"}) == text


def test_every_bit_counts() -> None:
    text = sealed(VALUE).encode()
    for at in range(8 * len(text)):
        data = bytearray(text)
        data[at // 8] ^= 1 << at % 8
        with pytest.raises(ValueError):
            opened(data.decode(), strict=True)
    for data in (text[:-1], text + b"\n", text.replace(b"  ", b"   ", 1), b"", b"[]\n"):
        with pytest.raises(ValueError):
            opened(data.decode(), strict=True)


def test_one_of_before_has_no_digest() -> None:
    assert opened('{"rows": []}', strict=False) == {"rows": []}
    with pytest.raises(ValueError, match="has no digest"):
        opened('{"rows": []}', strict=True)
    with pytest.raises(ValueError, match="does not fit its digest"):
        opened('{"rows": [], "digest": "00"}', strict=False)

"""Decides how the lake's own JSON files prove themselves: by a digest in each, of all else in it. Pure.

Every byte counts: a text that says the same in other bytes was not written here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

DIGEST = "digest"


def sealed(value: Mapping[str, Any]) -> str:
    """The text of a file. What `value` says as its digest does not count."""
    rest = {key: each for key, each in value.items() if key != DIGEST}
    return _text({**rest, DIGEST: hashlib.sha256(_text(rest).encode()).hexdigest()})


def opened(text: str, *, strict: bool) -> dict[str, Any]:
    """What is in it, without its digest. Raises ValueError, which says what is wrong.

    strict: without a digest it is refused. Files of older versions have none.
    """
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("is no JSON object")
    if DIGEST not in found:
        if strict:
            raise ValueError("has no digest")
        return found
    if sealed(found) != text:
        raise ValueError("does not fit its digest")
    del found[DIGEST]
    return found


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"

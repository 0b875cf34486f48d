"""How a twin's state becomes bytes, for its snapshots and digests; it never compares two of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from tandemq.twin.faults import TwinFault
from tandemq.twin.handling import State


@dataclass(frozen=True, slots=True)
class Codec(Generic[State]):
    """How a state becomes bytes: equal states give equal bytes, in every process."""

    encode: Callable[[State], bytes]
    decode: Callable[[bytes], State]


def _to_json(state: Any) -> bytes:
    return json.dumps(state, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


JSON: Codec[Any] = Codec(_to_json, json.loads)
"""For states of dicts with text keys, lists, texts, numbers, booleans and None."""


def check_json(state: Any, encoded: bytes) -> None:
    """Raises TwinFault (CONFIG_ERROR): a twin that begins again with this state would go on from another one."""
    if json.loads(encoded) != state:
        text = (
            "the state does not come back from JSON as it was: its dicts have keys that are no texts, or it has "
            "tuples. Use texts and lists, or give the twin a Codec"
        )
        raise TwinFault("CONFIG_ERROR", text)

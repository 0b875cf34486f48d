"""The toxics of Toxiproxy as types, with their units in their names; nothing here talks to a server."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar


class ToxiproxyError(RuntimeError):
    """Toxiproxy did not do what it was asked to. `reason` is one word for programs, the message says what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


class Stream(Enum):
    """A direction, as Toxiproxy names it: upstream is what the one who dialled says."""

    UP = "upstream"
    DOWN = "downstream"


@dataclass(frozen=True, slots=True)
class Toxic:
    """What is done to one direction of a proxy."""

    kind: ClassVar[str]
    names: ClassVar[dict[str, str]]  # our field to Toxiproxy's attribute

    def attributes(self) -> dict[str, int]:
        """As Toxiproxy wants them."""
        return {self.names[field.name]: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclass(frozen=True, slots=True)
class Latency(Toxic):
    """Everything arrives later."""

    latency_ms: int
    jitter_ms: int = 0
    kind = "latency"
    names: ClassVar = {"latency_ms": "latency", "jitter_ms": "jitter"}


@dataclass(frozen=True, slots=True)
class Bandwidth(Toxic):
    """No more than this a second."""

    rate_kib: int
    kind = "bandwidth"
    names: ClassVar = {"rate_kib": "rate"}


@dataclass(frozen=True, slots=True)
class Timeout(Toxic):
    """Nothing arrives; the connection ends after a time, with 0 when the toxic is taken away."""

    timeout_ms: int = 0
    kind = "timeout"
    names: ClassVar = {"timeout_ms": "timeout"}


@dataclass(frozen=True, slots=True)
class ResetPeer(Toxic):
    """What says something is cut off; a new connection by a reset."""

    timeout_ms: int = 0
    kind = "reset_peer"
    names: ClassVar = {"timeout_ms": "timeout"}


@dataclass(frozen=True, slots=True)
class SlowClose(Toxic):
    """The end of a connection arrives later."""

    delay_ms: int
    kind = "slow_close"
    names: ClassVar = {"delay_ms": "delay"}


@dataclass(frozen=True, slots=True)
class Slicer(Toxic):
    """What was written at once arrives in pieces."""

    average_bytes: int
    variation_bytes: int = 0
    delay_us: int = 0
    kind = "slicer"
    names: ClassVar = {"average_bytes": "average_size", "variation_bytes": "size_variation", "delay_us": "delay"}


@dataclass(frozen=True, slots=True)
class LimitData(Toxic):
    """The connection ends after so many bytes."""

    bytes: int
    kind = "limit_data"
    names: ClassVar = {"bytes": "bytes"}


TOXICS: dict[str, type[Toxic]] = {
    each.kind: each for each in (Latency, Bandwidth, Timeout, ResetPeer, SlowClose, Slicer, LimitData)
}


def toxic_of(kind: str, **values: Any) -> Toxic:
    """A toxic by its name. Raises ToxiproxyError (UNKNOWN_TOXIC) for an unknown one or one with other attributes."""
    made = TOXICS.get(kind)
    if made is None:
        near = difflib.get_close_matches(kind, TOXICS, n=1)
        advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(TOXICS)}"
        raise ToxiproxyError("UNKNOWN_TOXIC", f"no toxic is called {kind!r}; {advice}")
    try:
        return made(**values)
    except TypeError as error:
        known = ", ".join(field.name for field in dataclasses.fields(made))
        raise ToxiproxyError("UNKNOWN_TOXIC", f"toxic {kind} has {known}: {error}") from error

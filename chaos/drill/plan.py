"""What a drill is, and how it is read from TOML; it strikes nobody.

A drill says what must hold before anything is hurt (steady), what is done (method), what must come out (probes), and
how long all may take to be whole again (rollback). Every key has a default but its name and its method.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from chaos.faults import DEEDS, ON_THE_NETWORK, ON_THE_PROCESS, ROLES, Fault

LIBRARY = Path(__file__).resolve().parent / "library"
FOR_S_MAX = 3600.0
REPEAT_MAX = 1000
RATE_MIN, RATE_MAX = 5.0, 100_000.0  # messages a second; fewer are too few to see that it goes on, no pair takes more
DELAY_MS_MAX = 3_600_000
AHEAD_S_MAX = 10 * 365 * 86_400.0
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class PlanError(ValueError):
    """A drill that cannot be carried out: where it stands and what to write instead."""


class Steady(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must be seen before anything is hurt."""

    whole_within_s: float = 20.0  # a master, and a replica in sync
    rate: float = 500.0  # messages a second that are sent
    acknowledged_per_s_min: float = 50.0  # of these, over the warm-up
    warm_up_s: float = 2.0


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault of a round."""

    fault: str
    on: str = "master"
    at_s: float = 0.0  # after the round began
    for_s: float = 2.0
    delay_ms: int = 0  # of slow, each way; of slow-fsync, each
    ahead_s: float = 0.0  # of clock-jump; negative: behind

    def struck(self) -> Fault:
        """As an injector takes it."""
        return Fault(self.fault, self.on, self.for_s, self.at_s, self.delay_ms / 1000, self.ahead_s)


class Probes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of the verdict. What is not given is measured and not judged; the promises always are."""

    lost_max: int = 0
    duplicates_max: int = 0
    order_breaks_max: int = 0
    unexpected_max: int = 0
    two_masters_ms_max: int = 0
    no_master_ms_max: int | None = None
    recovery_p50_ms_max: int | None = None
    recovery_p99_ms_max: int | None = None
    degraded_ms_max: int | None = None
    resync_ms_max: int | None = None


class Rollback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything is healed after every round and at every end; this is how long it may take to be whole."""

    within_s: float = 60.0
    pause_s_max: float = 60.0  # nothing acknowledged for so long: the drill is given up, and healed


class Drill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    method: list[Step]
    title: str = ""
    repeat: int = 3
    quiet_s: float = 1.0  # between two rounds
    steady: Steady = Steady()
    probes: Probes = Probes()
    rollback: Rollback = Rollback()

    @property
    def needs_network(self) -> bool:
        """It hurts the members' connections."""
        return any(step.fault in ON_THE_NETWORK for step in self.method)

    @property
    def needs_preload(self) -> bool:
        """It hurts the members' disks or clocks."""
        return any(step.fault in ON_THE_PROCESS for step in self.method)

    @property
    def round_s(self) -> float:
        """How long one round's faults last."""
        return max(step.at_s + step.for_s for step in self.method)


def names() -> list[str]:
    """Of the library."""
    return sorted(path.stem for path in LIBRARY.glob("*.toml"))


def find(given: str) -> Drill:
    """A drill of the library, or of a file when the name ends in .toml. Raises PlanError."""
    path = Path(given) if given.endswith(".toml") else LIBRARY / f"{given}.toml"
    if not given.endswith(".toml") and given not in names():
        raise PlanError(f"no drill is called {given!r}{_near(given, names())}; a file's name ends in .toml")
    return parse(text_of(path), str(path) if given.endswith(".toml") else given)


def text_of(path: Path) -> str:
    """A drill file as it is. Raises PlanError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from error


def parse(text: str, source: str) -> Drill:
    """Raises PlanError for what is no TOML, is not known, is of the wrong kind, or cannot be done."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{source}: is not TOML: {error}") from error
    try:
        drill = msgspec.convert(document, Drill)
    except msgspec.ValidationError as error:
        raise PlanError(f"{source}: {_said(str(error))}") from error
    _check(drill, source)
    return drill


def _check(drill: Drill, source: str) -> None:
    def refuse(where: str, value: object, advice: str) -> None:
        raise PlanError(f"{source}: {where} = {value!r}: {advice}")

    if not NAME.fullmatch(drill.name):
        refuse("name", drill.name, "write small letters, digits and hyphens, up to 63")
    if not drill.method:
        refuse("method", [], "write at least one [[method]] with a fault")
    if not 1 <= drill.repeat <= REPEAT_MAX:
        refuse("repeat", drill.repeat, f"1 to {REPEAT_MAX}")
    for place, step in enumerate(drill.method):
        where = f"method[{place}]"
        if step.fault not in DEEDS:
            refuse(f"{where}.fault", step.fault, f"no such fault{_near(step.fault, list(DEEDS))}")
        if step.on not in ROLES:
            refuse(f"{where}.on", step.on, f"one of {', '.join(ROLES)}{_near(step.on, list(ROLES))}")
        if not 0 < step.for_s <= FOR_S_MAX or not 0 <= step.at_s <= FOR_S_MAX:
            refuse(where, [step.at_s, step.for_s], f"at_s is 0 or more and for_s more than 0, up to {FOR_S_MAX:g}")
        if (step.fault in ("slow", "slow-fsync")) != (step.delay_ms > 0):
            refuse(f"{where}.delay_ms", step.delay_ms, "slow and slow-fsync need it, and nothing else has it")
        if (step.fault == "clock-jump") != (step.ahead_s != 0):
            refuse(f"{where}.ahead_s", step.ahead_s, "clock-jump needs it, and nothing else has it")
        if not 0 <= step.delay_ms <= DELAY_MS_MAX or not abs(step.ahead_s) <= AHEAD_S_MAX:
            where, value = (f"{where}.delay_ms", step.delay_ms) if step.delay_ms else (f"{where}.ahead_s", step.ahead_s)
            refuse(where, value, f"delay_ms is at most {DELAY_MS_MAX}, ahead_s {AHEAD_S_MAX:g} either way")
    _check_numbers({"quiet_s": drill.quiet_s}, "", source)
    for section in ("steady", "probes", "rollback"):
        _check_numbers(msgspec.structs.asdict(getattr(drill, section)), f"{section}.", source)
    _check_sense(drill, refuse)


def _check_sense(drill: Drill, refuse: Callable[[str, object, str], None]) -> None:
    """What could never be seen, or never be done in time."""
    steady = drill.steady
    if steady.rate < RATE_MIN:
        refuse("steady.rate", steady.rate, f"at least {RATE_MIN:g}, else it is not seen in time that sending goes on")
    if steady.acknowledged_per_s_min > steady.rate:
        refuse(
            "steady.acknowledged_per_s_min", steady.acknowledged_per_s_min, f"only {steady.rate:g} a second are sent"
        )
    for name, value in (
        ("steady.warm_up_s", steady.warm_up_s),
        ("rollback.within_s", drill.rollback.within_s),
        ("rollback.pause_s_max", drill.rollback.pause_s_max),
    ):
        if not value:
            refuse(name, value, "more than 0: nothing can be seen or done in no time")


def _check_numbers(values: Mapping[str, float | None], prefix: str, source: str) -> None:
    """TOML has nan and inf, and a time that never ends is no time to wait."""
    for name, value in values.items():
        if value is None:
            continue
        most = FOR_S_MAX if name.endswith(("_s", "_s_max")) else RATE_MAX if "rate" in name else math.inf
        if not math.isfinite(value):
            advice = "write a number"
        elif value < 0:
            advice = "must not be negative"
        elif value > most:
            advice = f"at most {most:g}"
        else:
            continue
        raise PlanError(f"{source}: {prefix}{name} = {value!r}: {advice}")


_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `\$\.?([^`]*)`)?")
_SECTIONS: dict[str, type[Any]] = {"": Drill, "steady": Steady, "probes": Probes, "rollback": Rollback, "method": Step}


def _said(message: str) -> str:
    """msgspec's message as ours, with what was meant."""
    found = _UNKNOWN.search(message)
    if not found:
        return message
    section = re.sub(r"\[.*\]", "", found[2] or "")
    known = list(_SECTIONS.get(section, Drill).__struct_fields__)
    where = f"{found[2]}." if found[2] else ""
    return f"unknown key {where}{found[1]}{_near(found[1], known)}"


def _near(wrong: str, known: list[str]) -> str:
    near = difflib.get_close_matches(wrong, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"

"""Decides what a test asked for: its marker, the command line and pytest's configuration; starts nothing."""

from __future__ import annotations

import difflib
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MARKER = "tandemq"
SEED_MAX = 2**32
READY_S_MAX = 300.0
PROFILES = ("safe", "classic")
ARGUMENTS = ("seed", "profile", "config", "ready_s", "secure")
SECTIONS = ("timers", "limits", "failover")
TOXIPROXY = "toxiproxy-server"
REQUIRE, SKIP = "require", "skip"
INSTALL = f"install tandemq[chaos], and put {TOXIPROXY} 2.12 on the PATH or name it with --tandemq-toxiproxy=FILE"


class MarkerError(ValueError):
    """The marker of a test makes no sense; the message says what would."""


@dataclass(frozen=True)
class Settings:
    """The pair that one test wants. `settings_of` checks the kinds, which a marker need not keep to."""

    seed: Any = 0
    profile: Any = "safe"
    ready_s: Any = 60.0
    config: Any = field(default_factory=dict)  # sections of the members' configuration
    secure: Any = True  # with certificates, made for this pair


_SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()


def checked_settings(item: pytest.Item) -> Settings:
    """Of this test, the same each time it is asked. A marker that makes no sense fails it."""
    problem = ""
    if _SETTINGS not in item.stash:
        try:
            item.stash[_SETTINGS] = settings_of(item)
        except MarkerError as error:
            problem = f"@pytest.mark.{MARKER}: {error}"
    if problem:
        pytest.fail(problem, pytrace=False)
    return item.stash[_SETTINGS]


def settings_of(item: pytest.Item) -> Settings:
    """From the closest marker. The command line's seed wins; without either it is drawn. Raises MarkerError."""
    marker = item.get_closest_marker(MARKER)
    arguments = dict(marker.kwargs) if marker else {}
    if marker and marker.args:
        raise MarkerError(f"write its arguments by name, {_example()}")
    for name in arguments:
        if name not in ARGUMENTS:
            raise MarkerError(f"unknown argument {name}{_near(name, ARGUMENTS)}")
    given = item.config.getoption("--tandemq-seed")
    seed = given if given is not None else arguments.pop("seed", None)
    arguments.pop("seed", None)
    settings = Settings(seed=secrets.randbelow(SEED_MAX) if seed is None else seed, **arguments)
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    seed, ready_s = settings.seed, settings.ready_s
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < SEED_MAX:
        raise MarkerError(f"seed is {seed!r}: give a whole number from 0 to {SEED_MAX - 1}")
    if not isinstance(settings.secure, bool):
        raise MarkerError(f"secure is {settings.secure!r}: give True, or False for a pair without certificates")
    if settings.profile not in PROFILES:
        raise MarkerError(f"profile is {settings.profile!r}: give one of {', '.join(PROFILES)}")
    if not isinstance(ready_s, int | float) or not 0 < ready_s <= READY_S_MAX:
        raise MarkerError(f"ready_s is {ready_s!r}: give seconds, at most {READY_S_MAX:g}")
    if not isinstance(settings.config, Mapping):
        raise MarkerError(
            f"config is {settings.config!r}: give sections, as in config={{'timers': {{'lost_ms': 900}}}}"
        )
    for section, keys in settings.config.items():
        if section not in SECTIONS or not isinstance(keys, Mapping):
            raise MarkerError(f"config has {section!r}: give mappings for {', '.join(SECTIONS)}")


def _near(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"


def _example() -> str:
    return f"as in @pytest.mark.{MARKER}(seed=7)"


def toxiproxy_of(config: pytest.Config) -> Path:
    """The server's program. Without it the test fails, or is skipped where that was allowed."""
    from importlib.util import find_spec

    named = config.getoption("--tandemq-toxiproxy")
    program = named or shutil.which(TOXIPROXY)
    if named and not os.access(named, os.X_OK):
        pytest.fail(f"--tandemq-toxiproxy={named}: there is no program", pytrace=False)
    missing = "toxiproxy-python" if find_spec("toxiproxy") is None else "" if program else TOXIPROXY
    if not missing and program:
        return Path(program).resolve()
    without = config.getini("tandemq_toxiproxy")
    if without not in (REQUIRE, SKIP):
        pytest.fail(f"tandemq_toxiproxy = {without}: write {REQUIRE} or {SKIP}", pytrace=False)
    if without == SKIP:
        pytest.skip(f"CHAOS NOT TESTED: {missing} is missing; {INSTALL}")
    pytest.fail(
        f"{missing} is missing: {INSTALL}. With tandemq_toxiproxy = {SKIP} in pytest's configuration such tests are "
        "skipped instead.",
        pytrace=False,
    )

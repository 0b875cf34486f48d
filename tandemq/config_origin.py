"""Says where each value of a manager's configuration comes from, and what a file may hold; it decides no value.

`config.py` decides. What is shown here is what it would take: the file, then the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tandemq.config import NESTED, SECTIONS, ManagerConfig, environment_values, file_values, load, variable_of

DEFAULT = "default"


class Setting(NamedTuple):
    """One key that is in force."""

    key: str
    """`section.name`, as in the file."""
    value: Any
    origin: str
    """`default`, the variable's name, or the file's path."""


def settings(path: Path | None, environ: Mapping[str, str] = os.environ) -> list[Setting]:
    """Every key in the order of the file. Raises ConfigError, as `load` does."""
    config = load(path, environ=environ)
    layers = [(str(path), file_values(path))] if path else []
    layers.append(("", environment_values(environ)))
    found = []
    for section, keys in SECTIONS.items():
        owner = getattr(config, section) if section in NESTED else config
        for name, key in keys.items():
            origin = DEFAULT
            for source, values in layers:
                if key.field in (values.get(section, {}) if section in NESTED else values):
                    origin = source or variable_of(section, name)
            found.append(Setting(f"{section}.{name}", _plain(getattr(owner, key.field)), origin))
    return found


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the file, for editors and for checks before a roll-out; the rules between keys are
    `load`'s.
    """
    sections: dict[str, Any] = {}
    for section, keys in SECTIONS.items():
        fields = {each.name: each for each in msgspec.structs.fields(NESTED.get(section, ManagerConfig))}
        sections[section] = {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: _property(key.kind, fields[key.field].default) for name, key in keys.items()},
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tandemq.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": sections,
    }


def _property(kind: Any, default: Any) -> dict[str, Any]:
    found = msgspec.json.schema(kind)
    return found if default is msgspec.NODEFAULT else {**found, "default": _plain(default)}


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return list(value) if isinstance(value, tuple) else value

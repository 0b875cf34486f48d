"""What `tandemq config show` and `schema` say is what `load` takes: every key once, with the source that won."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tandemq.cli import root
from tandemq.config import NESTED, SECTIONS, load, to_toml
from tandemq.config_origin import DEFAULT, schema, settings
from tests.unit.cli.test_config import PAIRED, file_of

ENVIRON = {"TANDEMQ_TIMERS_LOST_MS": "3000", "TANDEMQ_MANAGER_DOMAINS": "x,y"}
FILE = '[manager]\nmember = "a"\ndata_dir = "/data/a"\n[timers]\nsuspect_ms = 700\nlost_ms = 2000\n'


def invoke(*arguments: str, **environ: str) -> Result:
    clean = {"TANDEMQ_CONFIG_HOME": "/nowhere"}
    return CliRunner(env={**clean, **environ}).invoke(root, ["config", *arguments])


def test_each_value_names_the_source_that_won(tmp_path: Path) -> None:
    path = file_of(tmp_path, FILE)
    found = {each.key: each for each in settings(path, ENVIRON)}
    config = load(path, environ=ENVIRON)
    assert list(found) == [f"{section}.{name}" for section, keys in SECTIONS.items() for name in keys]
    for section, keys in SECTIONS.items():
        owner = getattr(config, section) if section in NESTED else config
        for name, key in keys.items():
            value = getattr(owner, key.field)
            assert found[f"{section}.{name}"].value == (list(value) if isinstance(value, tuple) else value)
    origins = {key: each.origin for key, each in found.items() if each.origin != DEFAULT}
    assert origins == {
        "manager.member": str(path),
        "manager.data_dir": str(path),
        "manager.domains": "TANDEMQ_MANAGER_DOMAINS",
        "timers.suspect_ms": str(path),
        "timers.lost_ms": "TANDEMQ_TIMERS_LOST_MS",
    }


def test_it_is_shown_for_people_and_for_programs(tmp_path: Path) -> None:
    path = str(file_of(tmp_path, FILE))
    table = invoke("show", "--config", path, "--origin", "-o", "table", **ENVIRON)
    (line,) = (line for line in table.output.splitlines() if line.lstrip().startswith("timers.lost_ms"))
    assert line.split() == ["timers.lost_ms", "3,000", "TANDEMQ_TIMERS_LOST_MS"]
    shown = invoke("show", "--config", path, "--changed", "-o", "json", **ENVIRON)
    assert json.loads(shown.output)["settings"] == [
        {"key": "manager.member", "value": "a"},
        {"key": "manager.data_dir", "value": "/data/a"},
        {"key": "manager.domains", "value": ["x", "y"]},
        {"key": "timers.suspect_ms", "value": 700},
        {"key": "timers.lost_ms", "value": 3000},
    ]


def test_what_cannot_be_read_is_refused_as_serve_would(tmp_path: Path) -> None:
    result = invoke("show", "--config", str(file_of(tmp_path, "[timer]\nlost_ms = 1\n")))
    assert result.exit_code == 1
    assert "unknown section [timer]; did you mean timers?" in str(result.exception) + result.output


def _fits(found: dict[str, Any], value: Any) -> bool:
    kinds: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "boolean": bool, "array": list}
    return isinstance(value, kinds[found["type"]])


def test_the_schema_knows_each_key_its_kind_and_its_default(tmp_path: Path) -> None:
    result = invoke("schema")
    assert json.loads(result.output) == schema()
    sections = schema()["properties"]
    for each in settings(file_of(tmp_path, to_toml(PAIRED)), {}):
        section, name = each.key.split(".")
        known = sections[section]["properties"][name]
        assert _fits(known, each.value), each
        if name not in ("member", "data_dir") or section != "manager":
            assert _fits(known, known["default"]), each
    assert not sections["manager"]["additionalProperties"]


@pytest.mark.parametrize("command", [["show", "--origin"], ["schema"]])
def test_help_has_an_example(command: list[str]) -> None:
    assert "Example: tandemq config" in invoke(command[0], "--help").output

"""Who wins when several say something: option, variable, named file, the user's, the system's, default; and what is
wrong in each is refused with the source's name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tandemq import config as configuration
from tandemq.cli import root
from tandemq.config import ConfigError, ManagerConfig, environment_values, find_file, load
from tandemq.config_origin import settings

# A key of each kind: text, whole number, yes or no, list; its value in each source, as it is written there.
KEYS = {
    "manager.profile": ("safe", '"classic"', "classic", "safe"),
    "timers.lost_ms": (1500, "2000", "3000", 4000),
    "failover.hand_over_at_stop": (True, "false", "true", False),
    "manager.domains": (("main",), '["x"]', "y,z", ("w",)),
}
NEEDED = '[manager]\nmember = "a"\ndata_dir = "/d"\n'


def variable(key: str) -> str:
    return f"TANDEMQ_{key.replace('.', '_')}".upper()


def value_of(config: ManagerConfig, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section, config), name)


def read(text: str) -> Any:
    return {"true": True, "false": False}.get(text, int(text) if text.isdecimal() else text)


@pytest.mark.parametrize("key", KEYS)
def test_an_option_wins_over_a_variable_over_a_file_over_the_default(tmp_path: Path, key: str) -> None:
    default, in_file, in_environment, as_option = KEYS[key]
    section, _, name = key.partition(".")
    file = tmp_path / "a.toml"
    file.write_text(NEEDED)
    assert value_of(load(file, environ={}), key) == default
    line = f"{name} = {in_file}\n"
    file.write_text(NEEDED + (line if section == "manager" else f"[{section}]\n{line}"))
    from_file = tuple(json.loads(in_file)) if in_file.startswith("[") else json.loads(in_file)
    assert value_of(load(file, environ={}), key) == from_file
    environ = {variable(key): in_environment}
    wanted = tuple(in_environment.split(",")) if isinstance(default, tuple) else read(in_environment)
    assert value_of(load(file, environ=environ), key) == wanted
    overrides = {name: as_option} if section == "manager" else {section: {name: as_option}}
    assert value_of(load(file, overrides, environ), key) == as_option
    origins = {each.key: each.origin for each in settings(file, environ)}
    assert origins[key] == variable(key)


def test_the_file_that_is_named_wins_over_the_users_and_this_over_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, user, system = tmp_path / "named.toml", tmp_path / "home" / "tandemq.toml", tmp_path / "etc.toml"
    monkeypatch.setattr(configuration, "SYSTEM_FILE", system)
    environ = {"TANDEMQ_CONFIG_HOME": str(user.parent)}
    user.parent.mkdir()
    assert find_file(None, environ) is None
    for path in (system, user, named):
        path.write_text(NEEDED)
        assert find_file(str(named) if path == named else None, environ) == path
    assert find_file(None, environ) == user


def test_the_command_line_tells_the_same(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(NEEDED + "[timers]\nsuspect_ms = 700\nlost_ms = 2000\n")
    environ = {"TANDEMQ_CONFIG_HOME": "/nowhere", "TANDEMQ_TIMERS_LOST_MS": "3000"}
    shown = CliRunner(env=environ).invoke(root, ["config", "show", "--config", str(file), "--origin", "-o", "json"])
    found = {each["key"]: (each["value"], each["origin"]) for each in json.loads(shown.output)["settings"]}
    assert found["timers.lost_ms"] == (3000, "TANDEMQ_TIMERS_LOST_MS")
    assert found["timers.suspect_ms"] == (700, str(file))
    assert found["timers.heartbeat_ms"] == (200, "default")
    checked = CliRunner(env=environ).invoke(root, ["config", "check", "--config", str(file), "-o", "json"])
    assert json.loads(checked.output)["timers"]["lost_ms"] == 3000


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("TANDEMQ_TIMERS_LOST_MS", "soon", r"variable TANDEMQ_TIMERS_LOST_MS: timers.lost_ms = 'soon': Expected `int`"),
        ("TANDEMQ_TIMERS_LOST_MS", "", r"timers.lost_ms = ''"),
        ("TANDEMQ_TIMERS_LOST_MS", "1e400", r"timers.lost_ms = '1e400'"),
        ("TANDEMQ_LIMITS_MAP_BYTES", "9" * 40, r"limits.map_bytes = '9+'"),
        ("TANDEMQ_MANAGER_INSECURE_NETWORK", "maybe", r"manager.insecure_network = 'maybe': Expected `bool`"),
        ("TANDEMQ_MANAGER_DOMAINS", "main,", r"manager.domains = ''"),
        ("TANDEMQ_TIMERS_LOSE_MS", "3000", r"unknown key timers.lose_ms; did you mean lost_ms\?"),
        ("TANDEMQ_TIMER_LOST_MS", "3000", r"read by nothing; did you mean TANDEMQ_TIMERS_LOST_MS\?"),
        ("TANDEMQ_MANGER_DATA_DIR", "/d", r"read by nothing; did you mean TANDEMQ_MANAGER_DATA_DIR\?"),
        ("TANDEMQ_FAIL_OVER_CLASSIFIER", "x", r"read by nothing; did you mean TANDEMQ_FAILOVER_CLASSIFIER\?"),
    ],
)
def test_a_wrong_variable_is_named(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load(None, {"member": "a", "data_dir": "/d"}, {name: text})


@pytest.mark.parametrize(
    "name",
    [
        *("TANDEMQ_TARGET", "TANDEMQ_CONFIG_HOME", "TANDEMQ_HOST_FILE", "TANDEMQ_SITE_FILE", "TANDEMQ_HYPOTHESIS"),
        *("TANDEMQ_CHAOS_REQUIRED", "TANDEMQ_PRELOAD_CONTROL", "TANDEMQ_SERVICE_HOST", "TANDEMQ_SERVICE_PORT"),
        *("TANDEMQ_PORT", "TANDEMQ_PORT_7600_TCP_ADDR", "TANDEMQ_A_SERVICE_HOST", "TANDEMQ_VERSION", "OTHER_TIMERS"),
    ],
)
def test_a_variable_that_is_not_a_setting_is_left_alone(name: str) -> None:
    assert environment_values({name: "x"}) == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[timers]\nlost_ms = true\n", r"timers.lost_ms = True: Expected `int`"),
        ("[timers]\nlost_ms = 1500.0\n", r"timers.lost_ms = 1500.0"),
        ("[timers]\nlost_ms = nan\n", r"timers.lost_ms = nan"),
        ("[limits]\nmap_bytes = 99999999999999999999999\n", r"limits.map_bytes = 9+: is too large"),
        ("[manager]\ndomains = 'main'\n", r"manager.domains = 'main': Expected `array`"),
        ("[manager]\nmember = 'a'\nmember = 'b'\n", r"a\.toml: is not TOML: Cannot overwrite"),
        ("[timers.more]\nx = 1\n", r"unknown key timers.more"),
        ("[[manager]]\nmember = 'a'\n", r"stands outside a section"),
        ("\x00", r"is not TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load(file, environ={})


def test_a_file_that_is_no_text_or_no_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(b'[manager]\nmember = "\xff"\n')
    with pytest.raises(ConfigError, match=r"a\.toml: is not TOML"):
        load(file, environ={})
    for place in (str(tmp_path), str(tmp_path / "none.toml")):
        with pytest.raises(ConfigError, match="no such file; give an existing file to --config"):
            find_file(place, {})


def test_a_refused_value_is_not_blamed_on_the_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(NEEDED)
    for name, value in (("TANDEMQ_TIMERS_LOST_MS", "100"), ("TANDEMQ_MANAGER_MEMBER", "")):
        with pytest.raises(ConfigError, match=f"^{file} with {name}: "):
            load(file, environ={name: value, "HOME": "/"})
    with pytest.raises(ConfigError, match=f"^{file}: "):
        load(file, {"member": ""}, environ={})

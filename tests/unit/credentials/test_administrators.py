"""Who names nobody as an administrator has a manager at which nobody could grant a right, and hears so at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandemq.config import ConfigError, load

MANAGER = '[manager]\nmember = "a"\ndata_dir = "/d"\n\n[security]\n'


def config_of(text: str, tmp_path: Path) -> Path:
    file = tmp_path / "a.toml"
    file.write_text(MANAGER + text, encoding="utf-8")
    return file


@pytest.mark.parametrize("said", ["administrators = []\n", ""])
def test_with_credentials_somebody_has_to_be_an_administrator(said: str, tmp_path: Path) -> None:
    file = config_of(f'credentials = "/c"\n{said}', tmp_path)
    with pytest.raises(ConfigError, match=r'security\.administrators is empty: .* as administrators = \["ops"\]'):
        load(file, environ={})


def test_a_variable_that_is_empty_names_nobody_either(tmp_path: Path) -> None:
    file = config_of('credentials = "/c"\nadministrators = ["ops"]\n', tmp_path)
    assert load(file, environ={}).security.administrators == ("ops",)
    with pytest.raises(ConfigError, match=r"TANDEMQ_SECURITY_ADMINISTRATORS: security\.administrators: ''"):
        load(file, environ={"TANDEMQ_SECURITY_ADMINISTRATORS": ""})


def test_without_credentials_nobody_is_asked_who_he_is(tmp_path: Path) -> None:
    assert load(config_of("administrators = []\n", tmp_path), environ={}).security.administrators == ()

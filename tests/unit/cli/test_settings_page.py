"""docs/OPERATIONS.md names every setting, with the default that the code has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tandemq.config_origin import Setting, settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "OPERATIONS.md"
IN_WORDS = ("(needed)", "(needed in a pair)", "`listen_client`", "the authority's, else `suspend`", "empty, `all`")
"""Defaults that depend on something else, or are of two keys."""


def defaults_of(text: str) -> dict[str, str]:
    """By key, as the page has them."""
    rows = re.findall(r"^\| ((?:`[^|`]*`(?:, )?)+) \| ([^|]*) \|", text, re.MULTILINE)
    return {key: default for keys, default in rows for key in re.findall(r"`([a-z]+\.[a-z_]+)`", keys)}


def as_page(value: object) -> str:
    """A default as the page has it."""
    match value:
        case "" | []:
            return "empty"
        case bool():
            return f"`{str(value).lower()}`"
        case int():
            return str(value)
        case str():
            return f"`{value}`"
        case _:
            return f"`{json.dumps(value)}`"


def wrong(found: list[Setting], page: dict[str, str]) -> list[str]:
    return [
        f"{each.key} is {as_page(each.value)} by default, the page has {page.get(each.key)!r}"
        for each in found
        if page.get(each.key, "") not in IN_WORDS and page.get(each.key, "").partition(" (")[0] != as_page(each.value)
    ]


@pytest.fixture
def found(tmp_path: Path) -> list[Setting]:
    config = tmp_path / "a.toml"
    config.write_text('[manager]\nmember = "a"\ndata_dir = "/d"\n')
    return settings(config, {})


def test_every_setting_is_on_the_page_with_its_default(found: list[Setting]) -> None:
    assert len(found) > 50
    assert wrong(found, defaults_of(PAGE.read_text())) == []


def test_a_planted_default_and_a_missing_key_are_found(found: list[Setting]) -> None:
    page = defaults_of(PAGE.read_text())
    assert len(wrong(found, {**page, "failover.stall_ms": "9999"})) == 1
    del page["failover.flap_changes"]
    assert len(wrong(found, page)) == 1

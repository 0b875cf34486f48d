"""What deploy/ ships names what is there: configurations that load, commands that are ours, alerts with a page each."""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path

import click
import pytest

from tandemq.cli import root
from tandemq.config import ConfigError, check, load, parse
from tests.deploy.samples import DEPLOY, ROOT, RUNBOOKS, expressions_of_rules

IN_MANIFESTS = ("compose.yaml", "kubernetes/pair.yaml", "kubernetes/witness.yaml")
FILES = sorted([*DEPLOY.glob("config/*.toml"), *DEPLOY.glob("container/*.toml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_sample_configuration_loads(path: Path, tmp_path: Path) -> None:
    config = load(path, {"data_dir": str(tmp_path)}, {})
    assert config.member in (path.stem, "solo")


@pytest.mark.parametrize("path", [each for each in FILES if each.stem != "solo"], ids=lambda path: path.parent.name)
def test_without_its_insecure_switch_a_sample_is_refused(path: Path, tmp_path: Path) -> None:
    plain = re.sub("(?m)^insecure_network = true$", "", path.read_text(encoding="utf-8"))
    (tmp_path / "plain.toml").write_text(plain, encoding="utf-8")
    with pytest.raises(ConfigError, match="in clear text and by anybody"):
        load(tmp_path / "plain.toml", {"data_dir": str(tmp_path)}, {})


def test_the_files_of_a_config_map_are_a_pair(tmp_path: Path) -> None:
    text = (DEPLOY / "kubernetes" / "configuration.yaml").read_text(encoding="utf-8")
    names = ("tandemq-0", "tandemq-1")
    for name, other in (names, names[::-1]):
        body = re.search(rf"(?m)^  {name}\.toml: \|\n((?:    .*\n|\n)+)", text)
        assert body is not None
        document = tomllib.loads(textwrap.dedent(body[1]))
        (tmp_path / f"{name}.toml").write_text(textwrap.dedent(body[1]), encoding="utf-8")
        config = load(tmp_path / f"{name}.toml", {"data_dir": "/data"}, {})
        check(config)
        assert parse(document, name)["peer_member"] == other
        assert (config.member, config.advertise) == (name, f"{name}.tandemq-members:7600")


def commands_in(path: Path) -> list[list[str]]:
    found = re.findall(r"(?:args|command|CMD):? (\[.*\])", path.read_text(encoding="utf-8"))
    return [[word.strip('" ') for word in each.strip("[]").split(",")] for each in found]


@pytest.mark.parametrize("name", [*IN_MANIFESTS, "Containerfile"])
def test_a_container_starts_what_our_command_line_knows(name: str) -> None:
    commands = commands_in(DEPLOY / name)
    assert commands
    for command, *arguments in commands:
        found = root.get_command(click.Context(root), command)
        assert found is not None, command
        found.make_context(command, arguments)


def test_a_container_is_built_of_what_is_there() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    copied = [line.split()[1:-1] for line in text.splitlines() if line.startswith("COPY ") and "--from" not in line]
    assert len(copied) > 1
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []


def test_each_alert_has_a_page_and_each_page_an_alert() -> None:
    alerts = expressions_of_rules()
    rules = (DEPLOY / "prometheus" / "tandemq.rules.yml").read_text(encoding="utf-8")
    pages = {path.stem: path.read_text(encoding="utf-8") for path in RUNBOOKS.glob("*.md") if path.stem != "README"}
    assert {f"Tandemq{name}" for name in pages} == alerts.keys()
    for name, page in pages.items():
        assert f"\n{alerts[f'Tandemq{name}']}\n" in page, f"{name}: the page shows another expression"
        assert f"docs/runbooks/{name}.md\n" in rules
        assert f"[{name}]({name}.md)" in (RUNBOOKS / "README.md").read_text(encoding="utf-8")


def test_a_page_names_commands_that_exist() -> None:
    named = {
        each
        for path in [*RUNBOOKS.glob("*.md"), DEPLOY / "README.md"]
        for each in re.findall(r"`tandemq ((?:[a-z]+ ?)+)", path.read_text(encoding="utf-8"))
    }
    assert named
    for words in named:
        command: click.Command = root
        for word in words.split():
            if not isinstance(command, click.Group):
                break  # the rest is an argument
            found = command.get_command(click.Context(command), word)
            assert found is not None, f"tandemq {words}"
            command = found

"""What deploy/ ships names what is there: configurations that load, commands that are ours, alerts with a page each."""

from __future__ import annotations

import re
import shlex
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
def test_without_its_certificates_a_sample_is_refused(path: Path, tmp_path: Path) -> None:
    plain = path.read_text(encoding="utf-8").partition("[security]")[0]
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
        assert config.security.credentials == f"/credentials/{name}"
        assert parse(document, name)["peer_member"] == other
        assert (config.member, config.advertise) == (name, f"{name}.tandemq-members.tandemq.svc:7600")
        assert (config.peer_endpoint, config.peer_address) == tuple(
            f"{other}.tandemq-members.tandemq.svc:{port}" for port in (7600, 7601)
        )
    kubernetes = DEPLOY / "kubernetes"
    assert "\nnamespace: tandemq\n" in (kubernetes / "kustomization.yaml").read_text(encoding="utf-8")
    assert re.search(
        r"kind: Service\n.*\n  name: tandemq-members\n", (kubernetes / "pair.yaml").read_text(encoding="utf-8")
    )


def commands_in(path: Path) -> list[list[str]]:
    found = re.findall(r"(?:args|command|CMD):? (\[.*\])", path.read_text(encoding="utf-8"))
    # Within quotes a comma is part of the word.
    return [[word.strip('" ') for word in re.findall(r'"[^"]*"|[^, ]+', each.strip("[]"))] for each in found]


@pytest.mark.parametrize("manifest", [*IN_MANIFESTS, "Containerfile"])
def test_a_container_starts_what_our_command_line_knows(manifest: str) -> None:
    commands = commands_in(DEPLOY / manifest)
    assert commands
    for name, *arguments in filter(None, commands):
        found = root.get_command(click.Context(root), name)
        assert found is not None, name
        if isinstance(found, click.Group) and not found.invoke_without_command:
            parsed([name, *arguments])
        else:
            found.make_context(name, arguments)


def test_members_under_compose_come_back_and_can_be_reached_as_they_say(tmp_path: Path) -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    head, _, services = text.partition("\nservices:\n")
    assert "\n  restart: unless-stopped\n" in head.partition("x-member: &member\n")[2]
    for name, address in (("a", "127.0.0.1"), ("b", "127.0.0.2")):
        body = re.search(rf"(?m)^  {name}:\n((?:    .*\n)+)", services)
        assert body is not None
        assert "    <<: *member\n" in body[1]
        host, port = load(DEPLOY / "container" / f"{name}.toml", {"data_dir": str(tmp_path)}, {}).advertise.split(":")
        assert f'ports: ["{address}:{port}:{port}",' in body[1]
        assert f"`{address} {host}`" in head
    assert "--target 127.0.0.1" not in text


def test_who_dies_of_a_signal_is_started_again() -> None:
    """A unit's `on-failure` is any signal but those that stop in order; where a manifest of Kubernetes says nothing, it
    is always.
    """
    units = sorted((DEPLOY / "systemd").glob("*.service"))
    assert {unit.name for unit in units} >= {"tandemq@.service", "tandemq-witness.service"}
    for unit in units:
        lines = unit.read_text(encoding="utf-8").splitlines()
        assert "Restart=on-failure" in lines, unit
        never = [line for line in lines if line.startswith("RestartPreventExitStatus=")]
        assert never == ["RestartPreventExitStatus=2"], unit  # wrong usage: nothing else would come of it
    witness = (DEPLOY / "compose.yaml").read_text(encoding="utf-8").partition("\n  witness:\n")[2].partition("\n\n")[0]
    assert "\n    restart: unless-stopped" in witness
    for name in ("pair.yaml", "witness.yaml"):
        text = (DEPLOY / "kubernetes" / name).read_text(encoding="utf-8")
        assert "kind: StatefulSet" in text
        assert "restartPolicy" not in text


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


def lines_in(text: str) -> list[list[str]]:
    """Every command line of a page, without what a shell would make of it: `tandemq ...` in a sentence or a block."""
    lines = [*re.findall(r"`tandemq ([^`\n]+)`", text)]
    for block in re.findall(r"(?ms)^```\n(.*?)^```", text):
        lines += re.findall(r"(?m)^(?:\w+=\S+ )*tandemq (.+)$", block)
    return [shlex.split(line, comments=True) for line in lines]


def parsed(words: list[str]) -> None:
    """As typed, and not run. Raises click.UsageError."""
    command: click.Command = root
    context = click.Context(root, info_name="tandemq")
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words or ["(nothing)"])
        assert found is not None
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_context(command.name, [*words], parent=context.parent)


PAGES = [*sorted(RUNBOOKS.glob("*.md")), DEPLOY / "README.md"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_shows_command_lines_that_can_be_typed(path: Path) -> None:
    for words in lines_in(path.read_text(encoding="utf-8")):
        try:
            parsed(words)
        except click.UsageError as error:
            pytest.fail(f"tandemq {' '.join(words)}: {error.format_message()}")


def test_a_command_line_that_cannot_be_typed_is_found() -> None:
    assert lines_in("Try `tandemq pair why`.\n```\nA=b tandemq config check --config /x  # so\n```\n") == [
        ["pair", "why"],
        ["config", "check", "--config", "/x"],
    ]
    for line in ("classifier check", "classifier test", "pair sta", "pair status --targets x", "pair why MEMBER OTHER"):
        with pytest.raises(click.UsageError):
            parsed(line.split())


def test_a_page_names_commands_that_exist() -> None:
    named = {
        each
        for path in [*RUNBOOKS.glob("*.md"), DEPLOY / "README.md"]
        for each in re.findall(r"`tandemq ((?:[a-z][a-z-]* ?)+)", path.read_text(encoding="utf-8"))
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

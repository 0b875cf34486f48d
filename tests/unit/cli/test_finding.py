"""R146, R148: `config where`, and exporting and finding queues, as far as no manager is needed."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tandemq.cli import root

ORDERS = '[managers.orders]\nendpoints = ["127.0.0.1:{port}"]\naliases = ["my_qmgr"]\n'


class World:
    """A user, a host and a site of their own, and nobody who answers."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.environment = {
            "TANDEMQ_CONFIG_HOME": str(folder),
            "TANDEMQ_HOST_FILE": self.write("host", ""),
            "TANDEMQ_SITE_FILE": self.write("site", ""),
            "TANDEMQ_TARGET": "",
            "MOS_DFLT_QUEMGR_NAME": "",
        }

    def write(self, name: str, text: str) -> str:
        path = self.folder / f"{name}.toml"
        path.write_text(text.format(port=self.port))
        return str(path)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(root, arguments, env=self.environment)

    def where(self, *arguments: str) -> dict[str, Any]:
        result = self.run("config", "where", *arguments, "--timeout", "100ms", "-o", "json")
        found: dict[str, Any] = json.loads(result.output[: result.output.rindex("}") + 1])
        return found


@pytest.fixture
def world(tmp_path: Path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield World(tmp_path, held.getsockname()[1])


@pytest.mark.requirement("R146")
def test_it_says_which_source_decided_and_why_the_others_did_not(world: World) -> None:
    world.write("site", ORDERS + '[managers.far]\nendpoints = ["127.0.0.1:{port}"]\npriority = 7\n')
    found = world.where()
    assert found["decided_by"] == f"site file {world.folder}/site.toml"
    assert [each["outcome"] for each in found["considered"]] == [
        *("is not given", "is not set", "is not set", "does not exist", "does not exist"),
        *("names no default manager", "decides"),
    ]
    assert [(each["manager"], each["priority"], each["state"]) for each in found["managers"]] == [
        ("orders", 0, "no answer"),
        ("far", 7, "no answer"),
    ]
    world.environment["MOS_DFLT_QUEMGR_NAME"] = "my_qmgr"
    found = world.where()
    assert found["decided_by"] == "$MOS_DFLT_QUEMGR_NAME"
    assert [each["manager"] for each in found["managers"]] == ["orders"]
    assert [each["outcome"] for each in found["considered"][-4:]] == [
        "alias of orders",
        *["does not know it"] * 2,
        f"decides: orders at 127.0.0.1:{world.port}",
    ]
    table = world.run("config", "where", "-o", "table", "--timeout", "100ms").output
    assert "$MOS_DFLT_QUEMGR_NAME" in table
    assert "no answer" in table


def test_it_says_where_a_name_leads(world: World) -> None:
    world.write("site", ORDERS + '[queues."cf/hotline"]\nmanager = "orders"\n')
    for name in ("//my_qmgr", "//orders/cf/other", "///cf/hotline"):
        found = world.where(name)
        assert found["decided_by"] == f"site file {world.folder}/site.toml"
        assert [each["endpoint"] for each in found["managers"]] == [f"127.0.0.1:{world.port}"]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        ((), 3, ("UNREACHABLE", "nothing here names a manager", "tandemq dev")),
        (("//nobody",), 1, ("MANAGER_NOT_FOUND", "nothing here says where //nobody is", "config where //NAME")),
        (("///nothing",), 1, ("MANAGER_NOT_FOUND",)),
        (("//a//b",), 2, ("a segment is empty",)),
        (("--target", "h:x"), 2, ("is not host:port",)),
    ],
)
def test_it_leads_nowhere(world: World, arguments: tuple[str, ...], exit_code: int, says: tuple[str, ...]) -> None:
    result = world.run("config", "where", *arguments)
    assert result.exit_code == exit_code
    for words in says:
        assert words in result.output


def test_a_bad_file_and_a_resolver_that_is_away(world: World) -> None:
    world.write("site", "[managers.orders]\nprioritty = 1\n")
    for command in (("config", "where"), ("queue", "ls"), ("config", "where", "//x"), ("msg", "send", "//x/q", "a")):
        result = world.run(*command)
        assert result.exit_code == 1
        assert "CONFIG_ERROR" in result.output
        assert f"{world.folder}/site.toml" in result.output
        assert "did you mean priority?" in result.output
    world.write("site", '[[resolvers]]\nkind = "ldap"\nurl = "ldap://127.0.0.1:{port}"\nbase = "dc=x"\n')
    for command in (
        ("config", "where", "//x"),
        ("queue", "find", "q"),
        ("queue", "info", "//x/q", "--timeout", "300ms"),
    ):
        result = world.run(*command)
        assert result.exit_code == 3, result.output
        assert "MANAGER_UNREACHABLE" in result.output
        assert "mend what is away" in result.output


def test_names_among_the_arguments(world: World) -> None:
    result = world.run("msg", "send", "//or ders/q", "hello")
    assert result.exit_code == 2
    assert "Invalid value for QUEUE" in result.output
    assert "is no manager's name" in result.output
    result = world.run("queue", "info", "//nobody/q")
    assert result.exit_code == 1
    assert "MANAGER_NOT_FOUND" in result.output
    result = world.run("pair", "status", "--target", "//nobody")
    assert result.exit_code == 1
    assert "MANAGER_NOT_FOUND" in result.output


@pytest.mark.requirement("R012")
def test_an_exported_queue_is_found_without_asking_a_manager(world: World) -> None:
    world.write("host", ORDERS + '[queues."cf/hotline"]\nmanager = "my_qmgr"\n')
    result = world.run("queue", "find", "cf/hotline", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert (found["queue"], found["endpoints"]) == ("//my_qmgr/cf/hotline", [f"127.0.0.1:{world.port}"])
    assert found["source"] == f"host file {world.folder}/host.toml"
    result = world.run("queue", "find", "other")
    assert result.exit_code == 1
    assert "no resolver knows an exported queue 'other'" in result.output


def test_where_one_can_export_to(world: World) -> None:
    for command in (("export", "q", "--to"), ("unexport", "q", "--from")):
        result = world.run("queue", *command, "somewhere", "--target", f"127.0.0.1:{world.port}")
        assert result.exit_code == 1
        assert f"{command[-1]}: 'somewhere': is no place to export to; give user, host or site" in result.output

"""Members and witnesses have gRPC without its event engine and its support of forks; nobody else, and no version whose
engine was not measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata

import click
import pytest

import tandemq.grpc_engine
from tandemq.cli import COMMANDS, SERVERS, LazyGroup
from tandemq.grpc_engine import FORKS, MINORS, OFF, SETTING, grpc_version, without_event_engine, without_fork_support

UNKNOWN = "Unknown experiment"


def test_it_is_off_while_grpc_is_imported_and_children_hear_nothing_of_it() -> None:
    environment = {"OTHER": "kept"}
    with without_event_engine(environment):
        assert environment == {"OTHER": "kept", SETTING: OFF}
    assert environment == {"OTHER": "kept"}


@pytest.mark.parametrize("own", ["", "event_engine_client"])
def test_who_says_something_himself_is_obeyed(own: str) -> None:
    environment = {SETTING: own}
    with without_event_engine(environment):
        assert environment == {SETTING: own}
    assert environment == {SETTING: own}


def test_forks_are_none_of_its_business_while_it_is_imported() -> None:
    environment = {"OTHER": "kept"}
    with without_fork_support(environment):
        assert environment == {"OTHER": "kept", FORKS: "0"}
    assert environment == {"OTHER": "kept"}
    own = {FORKS: "1"}
    with without_fork_support(own):
        assert own == {FORKS: "1"}
    assert own == {FORKS: "1"}


@pytest.mark.parametrize(
    ("version", "off"),
    [
        (f"1.{MINORS.start}.0", True),
        (f"1.{MINORS.stop - 1}.1", True),
        (f"1.{MINORS.start - 1}.0", False),
        (f"1.{MINORS.stop}.0", False),
        (f"2.{MINORS.start}.0", False),
        (f"1.{MINORS.stop}.0rc1", False),
        ("1", False),
        ("", False),
    ],
)
def test_a_version_that_was_not_measured_is_left_alone(
    version: str, off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tandemq.grpc_engine, "grpc_version", lambda: version)
    environment: dict[str, str] = {}
    with without_event_engine(environment):
        assert (SETTING in environment) is off


@pytest.mark.parametrize("name", COMMANDS)
def test_only_what_serves_is_without_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str | None, str | None]] = []

    class Module:
        serve = witness = click.Command("any")

        def __getattr__(self, _: str) -> click.Command:
            return self.serve

    def load(module: str) -> Module:
        seen.append((module, os.environ.get(SETTING), os.environ.get(FORKS)))
        return Module()

    monkeypatch.delenv(SETTING, raising=False)
    monkeypatch.delenv(FORKS, raising=False)
    monkeypatch.setattr("tandemq.cli.importlib.import_module", load)
    assert LazyGroup().get_command(click.Context(click.Command("root")), name) is not None
    own = COMMANDS[name][0].partition(":")[0]
    assert seen == [*([("grpc", OFF, "0")] if name in SERVERS else []), (own, None, None)]


@pytest.mark.parametrize("name", ["serve", "witness", "pair"])
def test_what_serves_imports_grpc_while_it_is_off(name: str) -> None:
    """gRPC reads it when it is imported: a command that does so later would have it on."""
    code = (
        "import importlib, os, sys, tandemq.cli as cli, tandemq.grpc_engine as engine\n"
        "class Watch:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'grpc._cython': print(*map(os.environ.get, (engine.SETTING, engine.FORKS)))\n"
        "sys.meta_path.insert(0, Watch())\n"
        f"cli.root.get_command(None, {name!r})\n"
    )
    environment = {key: value for key, value in os.environ.items() if key not in {SETTING, FORKS}}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == (f"{OFF} 0\n" if name in SERVERS else "")


@pytest.mark.parametrize(("setting", "known"), [(OFF, True), ("-no_such_experiment", False)])
def test_the_grpc_that_is_here_knows_the_switch(setting: str, known: bool) -> None:
    """When this fails after an upgrade: measure (bench/levers/streams.py), then change MINORS."""
    done = subprocess.run(
        [sys.executable, "-c", "import grpc.aio; grpc.aio.init_grpc_aio()"],
        env={**os.environ, SETTING: setting},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (UNKNOWN not in done.stderr) is known
    assert int(metadata.version("grpcio").split(".")[1]) in MINORS


def test_the_version_is_that_of_the_package_without_importing_it() -> None:
    assert grpc_version() == metadata.version("grpcio")
    code = "import sys, tandemq.grpc_engine as engine; engine.grpc_version(); print('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_where_there_is_none_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tandemq.grpc_engine, "find_spec", lambda _: None)
    assert grpc_version() == ""

"""The units' own commands, carried out with what systemd would give them: a pair and its witness come up, say that they
are ready and alive, have every metric that alerts and dashboard name, and stop in order.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tandemq.channels import open_channel
from tandemq.cli.view import PairView, look
from tandemq.credentials.authority import create, issue
from tandemq.credentials.chosen import opener_of
from tests.deploy.samples import (
    DEPLOY,
    expressions_of_dashboard,
    expressions_of_rules,
    metrics_in,
    unit,
)
from tests.support.until import OUTER_S, until

PROCESSES = {"a": "member/orders/a", "b": "member/orders/b", "witness": "witness/witness"}


@dataclass(slots=True)
class Service:
    """One unit that was started, and the socket on which it speaks of itself."""

    process: subprocess.Popen[bytes]
    ears: socket.socket

    def hears(self, line: str) -> None:
        """Waits for a datagram with this line."""
        while line not in self.ears.recv(4096).decode().splitlines():
            assert self.process.poll() is None or line == "STOPPING=1", f"it ended with {self.process.returncode}"

    def stops(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.hears("STOPPING=1")
        assert self.process.wait(OUTER_S) == 0


def start(stack: ExitStack, name: str, instance: str, folder: Path) -> Service:
    """What systemd does with the unit, as far as the process sees it."""
    found = unit(name, instance=instance, configuration=folder, state=folder / "state")
    assert found.settings["Type"] == ["notify"]
    for directory in found.settings["StateDirectory"]:
        (folder / "state" / directory).mkdir(parents=True)
    ears = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    ears.bind(str(folder / f"{instance}.notify"))
    ears.settimeout(OUTER_S)
    # systemd looks for the name in its own fixed path; here that is the environment that runs the tests.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        **os.environ,
        **found.environment,
        "PATH": path,
        "NOTIFY_SOCKET": str(folder / f"{instance}.notify"),
        "WATCHDOG_USEC": str(int(found.watchdog_s * 1e6)),
    }
    executable = shutil.which(found.command[0], path=path)
    assert executable is not None
    log = stack.enter_context((folder / f"{instance}.log").open("wb"))
    process = subprocess.Popen(found.command, executable=executable, env=environment, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return Service(process, ears)


@pytest.fixture
def hosts(tmp_path: Path) -> tuple[Path, str]:
    """The samples for three hosts, on three addresses of this one that nobody else has, with certificates."""
    network = f"127.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 256}"
    etc = tmp_path / "tandemq"
    etc.mkdir()
    for sample in (DEPLOY / "config" / "a.toml", DEPLOY / "config" / "b.toml", DEPLOY / "systemd" / "witness.env"):
        text = sample.read_text(encoding="utf-8").replace("10.0.0.", f"{network}.")
        text = text.replace("/etc/tandemq/", f"{etc}/")
        (etc / sample.name).write_text(text, encoding="utf-8")
    authority = create(tmp_path / "authority").parent
    issue(authority, "principal/ops", etc / "credentials" / "ops")
    for host, (name, who) in enumerate(PROCESSES.items(), 1):
        issue(authority, who, etc / "credentials" / name, hosts=[f"{network}.{host}"])
    return tmp_path, network


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=OUTER_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


@pytest.mark.process
async def test_the_units_commands_make_a_pair(hosts: tuple[Path, str]) -> None:
    folder, network = hosts
    with ExitStack() as stack:
        witness = start(stack, "tandemq-witness.service", "witness", folder)
        members = [start(stack, "tandemq@.service", name, folder) for name in ("a", "b")]
        for service in (witness, *members):
            await asyncio.to_thread(service.hears, "READY=1")
            await asyncio.to_thread(service.hears, "WATCHDOG=1")

        opener = opener_of(str(folder / "tandemq" / "credentials" / "ops"))

        async def whole() -> PairView | None:
            view = await look([f"{network}.1:7600", f"{network}.2:7600"], opener=opener)
            return view if view.whole() else None

        await until(whole, "a whole pair")
        strangers = await look([f"{network}.1:7600", f"{network}.2:7600"], opener=open_channel)
        assert not any(each.reachable for each in strangers.members)  # in clear text
        pages = [await asyncio.to_thread(get, f"http://{network}.{host}:7602/metrics") for host in (1, 2)]
        named = {name for page in pages for name in re.findall(r"(?m)^# TYPE (\w+) ", page[1])}
        wanted = {*expressions_of_rules().values(), *expressions_of_dashboard()}
        assert {metric for each in wanted for metric in metrics_in(each)} - named == set()
        for path, codes in (("/readyz", [200, 200]), ("/role/master", [200, 503]), ("/role/replica", [503, 200])):
            assert [get(f"http://{network}.{host}:7602{path}")[0] for host in (1, 2)] == codes, path
        for service in (witness, *members):
            await asyncio.to_thread(service.stops)


@pytest.mark.parametrize("name", ["tandemq@.service", "tandemq-witness.service"])
def test_a_unit_asks_for_signs_of_life_and_takes_rights_away(name: str, tmp_path: Path) -> None:
    (tmp_path / "tandemq").mkdir()
    shutil.copy(DEPLOY / "systemd" / "witness.env", tmp_path / "tandemq")
    settings = unit(name, instance="a", configuration=tmp_path, state=tmp_path).settings
    assert float(settings["WatchdogSec"][0]) >= 5
    for key, value in (("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"), ("CapabilityBoundingSet", "")):
        assert settings[key] == [value]
    assert settings["User"] == ["tandemq"]

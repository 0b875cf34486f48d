"""Machines at one switch: each has a network, a name and mounts of its own, and the same files.

All of it lives in one set of name spaces, with process numbers of its own. Whoever ends `inside`, in any way, ends
every process in there, and the kernel takes networks and mounts with them: nothing is left to be cleared away.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

ROOT = Path(__file__).resolve().parents[3]
NETWORK, BITS = "10.77.0", 24
SWITCH = "lan"
PAIR = "pair"
"""The machine that the program itself is on: the switch's own address."""
SPACES = (
    *("setpriv", "--pdeathsig", "KILL", "unshare", "--user", "--map-root-user"),
    *("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
ENDS_S = 60.0
BEGIN_SWITCH = f"""
set -e
ip link set lo up
ip link add {SWITCH} type bridge
ip addr add "$1/{BITS}" dev {SWITCH}
ip link set {SWITCH} up
"""
BEGIN_HOST = 'hostname "$1" && echo ready && exec cat'
BEGIN_WIRE = f"""
set -e
ip link set lo up
ip addr add "$1/{BITS}" dev eth0
ip link set eth0 up
"""


def why_not() -> str:
    """Why this machine gives no such networks; empty: it does."""
    command = [*SPACES, "sh", "-c", BEGIN_SWITCH, "sh", f"{NETWORK}.1"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as missing:
        return f"{missing.filename} is not there (util-linux and iproute2 have what is needed)"
    return " ".join(done.stderr.split()) or f"exit code {done.returncode}" if done.returncode else ""


def inside(command: Sequence[str]) -> int:
    """Run it in spaces of its own; its exit code. Ctrl-C reaches it too, and it has a time to end; SIGTERM kills it."""

    def on_term(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, on_term)
    process = subprocess.Popen([*SPACES, *command], cwd=ROOT, env=_plain_environment())
    try:
        return process.wait()
    except KeyboardInterrupt:
        try:
            process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            sys.stderr.write(f"killed: it did not end within {ENDS_S:g} s\n")
        return 128 + signal.SIGINT
    finally:
        process.kill()
        process.wait()
        signal.signal(signal.SIGTERM, before)


def _plain_environment() -> dict[str, str]:
    """Ours without proxies: none is reached from in there."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


class Host:
    """A machine. Files are everybody's."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c", BEGIN_HOST, "sh", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            raise OSError(f"host {name} does not begin: exit code {self._holder.wait()}")
        pid = str(self._holder.pid)
        _done("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", pid)
        _done("ip", "link", "set", f"to-{name}", "master", SWITCH, "up")
        _done(*self.entered("sh", "-c", BEGIN_WIRE, "sh", address))

    def entered(self, *command: str, place: Path = ROOT) -> list[str]:
        """That command on this machine, in that directory."""
        spaces = ["--net", "--uts", "--mount", f"--wdns={place}"]
        return ["nsenter", "--target", str(self._holder.pid), *spaces, "--", *command]

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        out: IO[bytes] | int,
        errors: IO[bytes] | int,
        place: Path = ROOT,
    ) -> subprocess.Popen[str]:
        """Does not wait for it. Its process is that of the command: nsenter becomes it."""
        return subprocess.Popen(
            self.entered(*command, place=place),
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            text=True,
            process_group=0,
        )

    def hide(self, path: Path) -> None:
        """On this machine that directory is empty from now on, for what runs already too."""
        _done(*self.entered("mount", "-t", "tmpfs", "none", str(path)))


class Lan:
    """The switch and its machines, by name. Only within `inside`."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        _done("sh", "-c", BEGIN_SWITCH, "sh", f"{NETWORK}.1")
        addresses = {name: f"{NETWORK}.{at}" for at, name in enumerate((PAIR, *names), 1)}
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
        hosts = folder / "hosts"
        hosts.write_text("\n".join(lines) + "\n", encoding="utf-8")
        _done("mount", "--bind", str(hosts), "/etc/hosts")
        self.address = addresses[PAIR]
        self.hosts = {name: Host(name, addresses[name]) for name in names}


def _done(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")

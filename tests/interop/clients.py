"""Builds the clients in other languages and runs them against a pair; what they check is in their own sources.

Sources are copied into build/interop/<language>/, where stubs and dependencies are added: nothing generated and nothing
downloaded lies in the sources. A toolchain that is not there is `Missing`, never a success.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from chaos.cluster import Cluster
from tandemq.cli.view import PairView

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROTO = ROOT / "proto"
BUILD = ROOT / "build" / "interop"
# The newest that Go 1.23 compiles; go.mod names the runtimes.
GO_PLUGINS = (
    ("google.golang.org/protobuf/cmd/protoc-gen-go", "v1.36.6"),
    ("google.golang.org/grpc/cmd/protoc-gen-go-grpc", "v1.5.1"),
)
BUILD_S, CLIENT_S = 300, 60


class Missing(Exception):  # noqa: N818 - an answer, not a fault
    """The language's toolchain is not on this machine, or cannot get what it needs."""


class ClientFailed(AssertionError):  # noqa: N818 - as above
    """A client saw something else than it should have."""


def _tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise Missing(f"{name} is not on the PATH")
    return found


def _run(arguments: list[str], where: Path, **environment: str) -> None:
    done = subprocess.run(
        arguments,
        cwd=where,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if done.returncode:
        raise ClientFailed(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def _fetch(arguments: list[str], where: Path, **environment: str) -> None:
    """A step that downloads: a machine without a network lacks the toolchain as well."""
    try:
        _run(arguments, where, **environment)
    except (ClientFailed, subprocess.TimeoutExpired) as error:
        raise Missing(f"cannot be fetched: {error}") from error


def _is_fresh(stamp: Path, sources: Iterable[Path]) -> bool:
    """Whether these sources are what was built last; notes them if not. Deleting the folder forgets it."""
    chain = hashlib.blake2b(digest_size=16)
    for source in sorted(sources):
        chain.update(source.name.encode() + b"\0" + source.read_bytes())
    if stamp.exists() and stamp.read_text() == chain.hexdigest():
        return True
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.with_suffix(".next").write_text(chain.hexdigest())
    return False


def _built(stamp: Path) -> None:
    stamp.with_suffix(".next").rename(stamp)


def build_go() -> list[str]:
    """The command line of the Go client."""
    go, buf, place = _tool("go"), _tool("buf"), BUILD / "go"
    sources = [HERE / "go" / name for name in ("main.go", "go.mod", "go.sum")]
    stamp, binary = place / "built.stamp", place / "client"
    if not (_is_fresh(stamp, [*sources, *PROTO.glob("tandemq/v1/*.proto"), Path(__file__)]) and binary.exists()):
        for source in sources:
            shutil.copy(source, place)
        for module, version in GO_PLUGINS:
            if not (place / "bin" / Path(module).name).exists():
                _fetch([go, "install", f"{module}@{version}"], place, GOBIN=str(place / "bin"))
        names = [Path(module).name for module, _ in GO_PLUGINS]
        option = "module=github.com/tandemq/tandemq/gen/go"
        plugins = [{"local": str(place / "bin" / name), "out": ".", "opt": option} for name in names]
        template = json.dumps({"version": "v2", "plugins": plugins})
        _run([buf, "generate", "--template", template, "--path", str(PROTO / "tandemq/v1"), "-o", str(place)], ROOT)
        _fetch([go, "mod", "download"], place)
        _run([go, "build", "-o", str(binary), "."], place)
        _built(stamp)
    return [str(binary)]


def build_node() -> list[str]:
    """The command line of the Node client."""
    node, npm, place = _tool("node"), _tool("npm"), BUILD / "node"
    sources = [HERE / "node" / name for name in ("client.js", "package.json")]
    stamp = place / "built.stamp"
    if not (_is_fresh(stamp, [*sources, Path(__file__)]) and (place / "node_modules").exists()):
        for source in sources:
            shutil.copy(source, place)
        _fetch([npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"], place)
        _built(stamp)
    return [node, str(place / "client.js"), str(PROTO)]


CLIENTS: dict[str, Callable[[], list[str]]] = {"go": build_go, "node": build_node}


async def run_client(command: list[str], step: str, queue: str, *endpoints: str) -> str:
    """One run of a client; its last line."""
    process = await asyncio.create_subprocess_exec(
        *command, step, queue, *endpoints, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), CLIENT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise ClientFailed(f"{step} {queue}: no end within {CLIENT_S} s") from None
    text = output.decode(errors="replace").strip()
    if process.returncode:
        raise ClientFailed(f"{step} {queue} {' '.join(endpoints)}: exit code {process.returncode}\n{text}")
    return text.splitlines()[-1]


async def run_all(cluster: Cluster, command: list[str], say: Callable[[str], None]) -> None:
    """Every step: through both members in both directions, and over the death of the master."""
    view = await cluster.wait_for(PairView.whole, "a master and a replica in sync")
    [master] = view.masters()
    replica = next(name for name in cluster.members if name != master)
    run = uuid.uuid4().hex[:8]
    for sender, receiver in ((master, replica), (replica, master)):
        endpoints = cluster.endpoint(sender), cluster.endpoint(receiver)
        say(await run_client(command, "both", f"{run}-{sender}-{receiver}", *endpoints))
    endpoints = cluster.endpoint(master), cluster.endpoint(replica)
    say(await run_client(command, "send", f"{run}-failover", *endpoints))
    cluster.kill(master)
    say(f"killed {master}, which was master")
    say(await run_client(command, "receive", f"{run}-failover", *endpoints))
    await cluster.restart(master)
    await cluster.wait_ready()

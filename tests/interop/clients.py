"""Builds the clients in other languages; `sessions.py` runs them.

Sources are copied into build/interop/<language>/, where stubs and dependencies are added: nothing generated and nothing
downloaded lies in the sources. A toolchain that is not there is `Missing`, never a success.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROTO = ROOT / "proto"
BUILD = ROOT / "build" / "interop"
# The newest that Go 1.23 compiles; go.mod names the runtimes.
GO_PLUGINS = (
    ("google.golang.org/protobuf/cmd/protoc-gen-go", "v1.36.6"),
    ("google.golang.org/grpc/cmd/protoc-gen-go-grpc", "v1.5.1"),
)
BUILD_S = 900


class Missing(Exception):  # noqa: N818 - an answer, not a fault
    """The language's toolchain is not on this machine, or cannot get what it needs."""


class ClientFailed(AssertionError):  # noqa: N818 - as above
    """A client could not be built, or saw something else than it should have."""


def _tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise Missing(f"{name} is not on the PATH")
    return found


def _run(arguments: list[str], where: Path, **environment: str) -> None:
    try:
        done = subprocess.run(
            arguments,
            cwd=where,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=BUILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClientFailed(f"{' '.join(arguments)}: no end within {BUILD_S} s") from None
    if done.returncode:
        raise ClientFailed(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def _fetch(arguments: list[str], where: Path, **environment: str) -> None:
    """A step that downloads: a machine without a network lacks the toolchain as well."""
    try:
        _run(arguments, where, **environment)
    except ClientFailed as error:
        raise Missing(f"cannot be fetched: {error}") from error


def _is_fresh(stamp: Path, sources: Iterable[Path]) -> bool:
    """Whether these sources are what was built last; notes them if not. Deleting the folder forgets it."""
    chain = hashlib.blake2b(digest_size=16)
    for source in sorted(sources):
        chain.update(source.as_posix().encode() + b"\0" + source.read_bytes())
    if stamp.exists() and stamp.read_text() == chain.hexdigest():
        return True
    stamp.parent.mkdir(parents=True, exist_ok=True)
    _next(stamp).write_text(chain.hexdigest())
    return False


def _next(stamp: Path) -> Path:
    """Of this process: two that build the same, one after the other, both end with it built."""
    return stamp.with_suffix(f".{os.getpid()}.next")


def _built(stamp: Path) -> None:
    _next(stamp).rename(stamp)


def _sources(language: str, *patterns: str) -> list[Path]:
    return sorted(path for pattern in patterns for path in (HERE / language).glob(pattern))


def _prepared(language: str, sources: list[Path], artefact: Path) -> Path | None:
    """The place to build in, the sources copied to it; None when what is there is of these sources."""
    place = BUILD / language
    contract = sorted(PROTO.glob("tandemq/v1/*.proto"))
    if _is_fresh(place / "built.stamp", [*sources, *contract, Path(__file__)]) and artefact.exists():
        return None
    for source in sources:
        target = place / source.relative_to(HERE / language)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    return place


def build_go() -> list[str]:
    """The command line of the Go client."""
    go, buf, binary = _tool("go"), _tool("buf"), BUILD / "go" / "client"
    if place := _prepared("go", _sources("go", "*"), binary):
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
        _built(place / "built.stamp")
    return [str(binary)]


def build_node() -> list[str]:
    """The command line of the Node client."""
    node, npm, modules = _tool("node"), _tool("npm"), BUILD / "node" / "node_modules"
    if place := _prepared("node", _sources("node", "*"), modules):
        _fetch([npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"], place)
        _built(place / "built.stamp")
    return [node, str(BUILD / "node" / "main.js"), str(PROTO)]


def build_java() -> list[str]:
    """The command line of the Java client."""
    java, maven, target = _tool("java"), _tool("mvn"), BUILD / "java" / "target"
    if place := _prepared("java", _sources("java", "pom.xml", "src/main/java/*"), target / "classes" / "Main.class"):
        contract = f"-Dtandemq.proto={PROTO}"
        _fetch([maven, "-q", "-B", "generate-sources", contract], place)
        _run([maven, "-q", "-B", "compile", contract], place)
        _built(place / "built.stamp")
    return [java, "-XX:+UseSerialGC", "-cp", f"{target / 'classes'}:{target / 'libraries'}/*", "Main"]


def build_rust() -> list[str]:
    """The command line of the Rust client."""
    cargo, buf, binary = _tool("cargo"), _tool("buf"), BUILD / "rust" / "target" / "debug" / "client"
    if place := _prepared("rust", _sources("rust", "*.*", "src/*"), binary):
        descriptors = place / "descriptors.binpb"
        contract = ["--as-file-descriptor-set", "--path", str(PROTO / "tandemq/v1"), "-o", str(descriptors)]
        _run([buf, "build", *contract], ROOT)
        _fetch([cargo, "fetch", "--quiet"], place)
        output = {
            "TANDEMQ_DESCRIPTORS": str(descriptors),
            "CARGO_TARGET_DIR": str(place / "target"),
            "CARGO_PROFILE_DEV_DEBUG": "0",
        }
        _run([cargo, "build", "--quiet"], place, **output)
        _built(place / "built.stamp")
    return [str(binary)]


CLIENTS: dict[str, Callable[[], list[str]]] = {
    "go": build_go,
    "java": build_java,
    "node": build_node,
    "rust": build_rust,
}

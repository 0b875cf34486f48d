"""Has gRPC poll its sockets without its event engine, in processes that are Tandemq's alone: one thread less between a
socket and the loop. Never in an application's process: it is not ours to say how gRPC works there.

What it is worth, and how it ends: docs/decisions/0054-event-engine.md. The same for its support of forks, which kills
children: docs/decisions/0092-forks.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

SETTING = "GRPC_EXPERIMENTS"
OFF = "-event_engine_client,-event_engine_listener"
FORKS = "GRPC_ENABLE_FORK_SUPPORT"
SUITES = "GRPC_SSL_CIPHER_SUITES"
NONE_OLDER = "ECDHE-PSK-AES128-CBC-SHA"
MINORS = range(80, 86)
"""Of grpcio 1.x: those that have the engine on and obey. An unknown name would be a line of an error in each log, and
upstream means to take the switch away: a later version joins when it has been measured.
"""

_newest_alone = False
"""Whether the gRPC of this process was imported in `newest_tls`."""


@contextmanager
def without_event_engine(environment: MutableMapping[str, str]) -> Iterator[None]:
    """What is imported in here for the first time has gRPC without it; gRPC reads that once, when it is imported. No
    effect where the environment says something itself, or the version is none of `MINORS`.
    """
    if SETTING in environment or not _is_known(grpc_version()):
        yield
        return
    environment[SETTING] = OFF
    try:
        yield
    finally:
        del environment[SETTING]  # classifiers and other children are somebody else's


@contextmanager
def newest_tls(environment: MutableMapping[str, str]) -> Iterator[None]:
    """The same for TLS: 1.3 and nothing older, which gRPC has no option for in Python. Suites of 1.3 are not chosen by
    that variable; of the older ones this leaves one that needs a key which nobody has.
    """
    global _newest_alone  # noqa: PLW0603 - one process has one gRPC
    if SUITES in environment:
        yield
        return
    early = "grpc" in sys.modules
    environment[SUITES] = NONE_OLDER
    try:
        yield
    finally:
        del environment[SUITES]
        _newest_alone = _newest_alone or (not early and "grpc" in sys.modules)


def takes_older_tls(environment: Mapping[str, str]) -> bool:
    """Whether ports of this process take TLS 1.2 and nobody said so: its gRPC was imported outside `newest_tls`."""
    return not _newest_alone and SUITES not in environment


@contextmanager
def without_fork_support(environment: MutableMapping[str, str]) -> Iterator[None]:
    """The same for forks: gRPC does nothing at one, and no thread of its starts in the child, where it would meet what
    threads of the parent left half done. A child may do anything but use gRPC; ours start another program at once.
    """
    if FORKS in environment:
        yield
        return
    environment[FORKS] = "0"
    try:
        yield
    finally:
        del environment[FORKS]


@contextmanager
def as_server(environment: MutableMapping[str, str]) -> Iterator[None]:
    """All of these: what a process imports in here is as a member or a witness has it."""
    with without_event_engine(environment), without_fork_support(environment), newest_tls(environment):
        yield


def grpc_version() -> str:
    """Of the grpcio that would be imported, which is not done here; empty: nobody knows. `importlib.metadata` loads
    what a member never needs (docs/decisions/0050-imports.md).
    """
    spec = find_spec("grpc")
    file = Path(spec.origin).with_name("_grpcio_metadata.py") if spec is not None and spec.origin else None
    text = file.read_text(encoding="utf-8") if file is not None and file.exists() else ""
    return text.partition("__version__ = ")[2].strip().strip("\"'")


def _is_known(version: str) -> bool:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return major == "1" and minor.isdigit() and int(minor) in MINORS

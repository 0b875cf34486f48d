"""The ways to a manager on which the same client code must work, and what a test may know of each: very little."""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.cluster import Cluster
from tandemq import aio, embedded
from tandemq.config import ManagerConfig
from tandemq.config_custom import Custom
from tandemq.config_links import Links
from tests.client_suite.by_macros import by_macros
from tests.client_suite.by_proxies import by_proxies
from tests.support.clusters import patient
from tests.support.until import OUTER_S

DISCOUNT = Path(__file__).parents[2] / "deploy" / "reactions" / "discount.py"
ASKED = Custom(commands=(shlex.join(["discount=" + sys.executable, "-S", str(DISCOUNT)]),), call_ms=10_000)
NAMES = ("embedded", "unix", "tcp", "replica", "single", "macro", "proxy")


@dataclass(frozen=True, slots=True)
class Way:
    """How one client comes to a manager."""

    name: str
    connect: Callable[[], aio.Client]
    copies: int
    """What replies say: two members hold it, or one."""


def settings_of(folder: Path, *names: str) -> dict[str, dict[str, Any]]:
    """What these members have beside what all have: each a socket of its own, and a program that reactions ask."""
    return {name: {"listen_unix": str(folder / name), "custom": ASKED} for name in names}


def to(target: str, *, follow_master: bool = True) -> Callable[[], aio.Client]:
    return lambda: aio.connect(target, timeout=OUTER_S, follow_master=follow_master)


def inside(folder: Path) -> ManagerConfig:
    """A manager that nobody outside this process can reach."""
    return ManagerConfig(member="inside", data_dir=str(folder), server_required=False, custom=ASKED)


def knowing(pair: Cluster) -> Links:
    """For whoever has proxies of that pair's queues."""
    return Links(managers=tuple(f"{pair.pair}={endpoint}" for endpoint in pair.endpoints))


@contextlib.asynccontextmanager
async def short_folder() -> AsyncIterator[Path]:
    """pytest's own folders may be longer than a socket's name."""
    with tempfile.TemporaryDirectory(prefix="tq") as folder:
        yield Path(folder)


@contextlib.asynccontextmanager
async def all_ways(folder: Path) -> AsyncIterator[dict[str, Way]]:
    """A pair, one with proxies of its queues, a single manager and one in this process."""
    async with contextlib.AsyncExitStack() as stack:
        sockets = await stack.enter_async_context(short_folder())
        pair = patient(folder / "pair", settings=settings_of(sockets, "a", "b"))
        await stack.enter_async_context(pair.running())
        links = {name: {"links": knowing(pair)} for name in ("a", "b")}
        near = patient(folder / "near", pair="near", settings=links)
        await stack.enter_async_context(near.running())
        single = patient(folder / "single", members=("solo",), settings={"solo": {"custom": ASKED}})
        await stack.enter_async_context(single.running())
        manager = await stack.enter_async_context(embedded.open_manager(inside(folder / "inside")))
        yield {
            "embedded": Way("embedded", lambda: embedded.connect(manager, timeout=OUTER_S), 1),
            "unix": Way("unix", to(f"unix:{sockets / 'a'}"), 2),
            "tcp": Way("tcp", to(pair.target), 2),
            "replica": Way("replica", to(pair.endpoint("b"), follow_master=False), 2),
            "macro": Way("macro", by_macros(to(pair.target)), 2),
            "proxy": Way("proxy", by_proxies(to(near.target), to(pair.target), pair.pair), 2),
            "single": Way("single", to(single.target), 1),
        }

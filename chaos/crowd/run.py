"""Plays crowds at a pair of its own and counts what it did to clients; judges nothing but what a zero must be."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import os
import platform
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chaos.cluster import WITNESS, Cluster
from chaos.crowd.floods import run_floods
from chaos.crowd.sending import Sends, sending
from chaos.crowd.silent import crowding

PARTS = ("silent", "floods", "idle")
IDLE_MODULE = "chaos.crowd.idle"
IDLE_KEYS = (
    "idle_consumers",
    "cpu_share_master",
    "cpu_share_replica",
    "takeovers_without_fault",
    "takeover_ms",
    "reattached_s",
)
HANDED_OVER = re.compile(r"domain main: MASTER, epoch [0-9]+: \S+ handed over")
DESCRIPTORS = 1_024
"""That each process of the pair may have."""
PEER_OFFSET = 1


class MissingPartError(RuntimeError):
    """A part of the whole run is not there; the text names it."""


def missing(parts: Sequence[str]) -> str:
    """What of these parts cannot be played here; empty: all can."""
    if "idle" in parts and importlib.util.find_spec(IDLE_MODULE) is None:
        return f"idle: there is no {IDLE_MODULE} with run_idle(consumers, connections)"
    return ""


async def play(
    directory: Path, parts: Sequence[str], *, connections: int, seconds: float, consumers: int, over: int
) -> dict[str, Any]:
    """The figures of these parts, by name, with a verdict. Keys of parts that were not played are None."""
    if lack := missing(parts):
        raise MissingPartError(lack)
    figures: dict[str, Any] = {
        "silent_connections": None,
        "sends_failed": 0,
        **dict.fromkeys(IDLE_KEYS),
        "handoffs": None,
        "parts": list(parts),
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
    }
    if "silent" in parts or "floods" in parts:
        async with _pair(directory) as cluster:
            if "silent" in parts:
                await _silent(cluster, figures, connections, seconds)
            if "floods" in parts:
                await _floods(cluster, figures)
    if "idle" in parts:
        found = asdict(await importlib.import_module(IDLE_MODULE).run_idle(consumers, over))
        figures["sends_failed"] += found.pop("sends_failed")
        changes = figures["takeovers_without_fault"] or 0
        figures |= found
        figures["takeovers_without_fault"] += changes
    figures["verdict"] = "passed" if not wrong(figures) else "; ".join(wrong(figures))
    return figures


def wrong(figures: dict[str, Any]) -> list[str]:
    """What is not as it must be, in phrases."""
    zeros = ("sends_failed", "takeovers_without_fault")
    found = [f"{name} is {figures[name]}" for name in zeros if figures[name]]
    found += [f"the flood {each['name']} was not ended" for each in figures.get("floods", ()) if not each["ended"]]
    return found


@contextlib.asynccontextmanager
async def _pair(directory: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(directory)
    for child in cluster.children.values():
        child.descriptors = DESCRIPTORS
    async with cluster.running():
        yield cluster


async def _changes(cluster: Cluster) -> tuple[int, int]:
    """Changes of mastership so far: those in which both members agreed, and all the others."""
    domains = [member.domain("main") for member in (await cluster.status()).members]
    epoch = max(domain.epoch for domain in domains if domain is not None)
    logs = [cluster.children[name].log.read_text(encoding="utf-8", errors="replace") for name in cluster.members]
    handoffs = sum(len(HANDED_OVER.findall(log)) for log in logs)
    return handoffs, epoch - handoffs


async def _silent(cluster: Cluster, figures: dict[str, Any], connections: int, seconds: float) -> None:
    """At each port of the master in turn, and at the witness."""
    before = await _changes(cluster)
    [master] = (await cluster.status()).masters()
    host, port = cluster.endpoint(master).rsplit(":", 1)
    ports = {"client": int(port), "peer": int(port) + PEER_OFFSET}
    addresses = {name: (host, number) for name, number in ports.items()}
    witness_host, witness_port = cluster.witness_endpoint.rsplit(":", 1)
    addresses[WITNESS] = (witness_host, int(witness_port))
    figures["silent_connections"] = connections
    figures["silent"] = {}
    for name, address in addresses.items():
        async with sending(cluster.target) as sends:
            began_s = time.monotonic()
            async with crowding(address, connections) as crowd:
                await asyncio.sleep(max(0.0, began_s + seconds - time.monotonic()))
        figures["silent"][name] = {**asdict(crowd), **_reported(sends, figures)}
    _count(figures, before, await _changes(cluster))


async def _floods(cluster: Cluster, figures: dict[str, Any]) -> None:
    before = await _changes(cluster)
    [master] = (await cluster.status()).masters()
    host, port = cluster.endpoint(master).rsplit(":", 1)
    async with sending(cluster.target) as sends:
        endings = await run_floods((host, int(port)))
    figures["floods"] = [asdict(each) for each in endings]
    figures["floods_sends"] = _reported(sends, figures)
    _count(figures, before, await _changes(cluster))


def _reported(sends: Sends, figures: dict[str, Any]) -> dict[str, Any]:
    figures["sends_failed"] += sends.failed
    return {**asdict(sends), "slowest_s": round(sends.slowest_s, 3)}


def _count(figures: dict[str, Any], before: tuple[int, int], after: tuple[int, int]) -> None:
    """A beset master hands over, which is no takeover: both members agree, and no send waits for a lost peer."""
    figures["handoffs"] = (figures["handoffs"] or 0) + after[0] - before[0]
    figures["takeovers_without_fault"] = (figures["takeovers_without_fault"] or 0) + after[1] - before[1]

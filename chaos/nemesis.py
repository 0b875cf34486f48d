"""Hurts what processes leave on disk: wiped, copied, put back from an older copy. It never touches what runs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from chaos.cluster import Cluster


def directory(cluster: Cluster, name: str) -> Path:
    """The data directory of a member or of the witness."""
    return cluster.data_dir / name


async def kill(cluster: Cluster, *names: str) -> None:
    """kill -9, all at once; returns when they are gone. A process that is gone already is left alone."""
    running = [name for name in names if cluster.children[name].running]
    for name in running:
        cluster.kill(name)
    for name in running:
        process = cluster.children[name].process
        assert process is not None
        await asyncio.to_thread(process.wait)
        if process.stdin:
            process.stdin.close()


def wipe(cluster: Cluster, name: str) -> None:
    """Its disk is new and empty."""
    _is_down(cluster, name)
    shutil.rmtree(directory(cluster, name))


def copy(cluster: Cluster, name: str, to: Path) -> None:
    """Keeps its directory as it is now."""
    _is_down(cluster, name)
    shutil.copytree(directory(cluster, name), to)


def put_back(cluster: Cluster, name: str, kept: Path) -> None:
    """An older copy takes the place of what it has."""
    wipe(cluster, name)
    shutil.copytree(kept, directory(cluster, name))


def _is_down(cluster: Cluster, name: str) -> None:
    assert not cluster.children[name].running, f"{name} runs; its directory is not to be touched"


def release(cluster: Cluster) -> None:
    """Lets every paused process go on, so that it can be ended in order."""
    for name, child in cluster.children.items():
        if child.paused:
            cluster.resume(name)

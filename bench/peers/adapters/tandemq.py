"""Tandemq: a pair with its witness, default settings, started as `tandemq dev` starts it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from bench.loops import loop_factory
from bench.peers.contract import Peer, Setting
from bench.peers.place import BenchError, Place
from chaos.cluster import Cluster, ClusterError

T = TypeVar("T")


class Tandemq(Peer):
    name = "tandemq"
    title = "Tandemq, pair + witness"
    promise = "synced on both"
    copies = 2
    client = "tandemq"
    client_title = "tandemq.aio, batches of 500"
    interpreter = sys.executable
    roles = ("tandemq",)  # one folder for all three processes; the copies are told apart by `members`
    batch = 500
    open_loop = True

    def __init__(self, place: Place, role: str = "tandemq") -> None:
        super().__init__(place)
        self.roles = (role,)  # several pairs beside each other have a folder each
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        assert self._cluster, "not started"
        return self._cluster

    def start(self) -> None:
        self._cluster = Cluster(self.place.role(self.roles[0]))
        self._spawned(self._cluster.start())

    def restart(self, name: str) -> None:
        """A member or the witness whose process is gone; returns when it answers."""
        self._spawned(self.cluster.restart(name))

    def _spawned(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs what starts processes, in the role's folder: they inherit it, and are known as ours by it."""
        with contextlib.chdir(self.place.role(self.roles[0])):
            self.wait(work)

    def stop(self) -> None:
        if self._cluster:
            self._runner.run(self._cluster.stop())
        self._runner.close()
        super().stop()

    def target(self) -> dict[str, Any]:
        return {"servers": self.cluster.target}

    def members(self) -> dict[str, list[int]]:
        pids = {name: child.pid for name, child in self.cluster.children.items() if name in self.cluster.members}
        return {f"tandemq-{name}": [pid] for name, pid in pids.items() if pid}

    def by_role(self) -> dict[str, int]:
        """The process of the master and that of the replica; waits until both are whole."""
        view = self.wait(self.cluster.wait_ready())
        master = view.masters()[0]
        return {
            "master" if name == master else "replica": self.cluster.children[name].pid or 0
            for name in self.cluster.members
        }

    def master(self) -> str:
        """The member that serves now; waits until one does."""
        view = self.wait(self.cluster.wait_for(lambda view: len(view.masters()) == 1, "one master"))
        return view.masters()[0]

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs something of the cluster's on its loop."""
        try:
            return self._runner.run(work)
        except ClusterError as failure:
            raise BenchError(str(failure)) from None

    def settings(self) -> list[Setting]:
        view = self.wait(self.cluster.wait_ready())
        found = []
        for member in view.members:
            domain = member.domain("main")
            assert domain is not None
            found.append(Setting(f"data of {member.name}", "IN_SYNC", domain.data_state))
            if domain.role == "MASTER":
                found.append(Setting("in-sync set", "a b", " ".join(sorted(domain.in_sync_set))))
        return found

    def versions(self) -> dict[str, str]:
        return {name: importlib.metadata.version(name) for name in ("tandemq", "grpcio", "lmdb", "uvloop")}

    def described(self) -> dict[str, Any]:
        return {
            "profile": "safe",
            "batch": self.batch,
            "unanswered batches": self.window // self.batch,
            "min_copies": 2,
        }

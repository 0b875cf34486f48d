"""Redis: a primary and a replica, both with appendfsync always. An acknowledged batch waited for the replica's
offset.
"""

from __future__ import annotations

from typing import Any

from bench.peers.contract import Peer, Setting, client_versions, version_of
from bench.peers.place import HOST, BenchError, Place, said, wait_for_port

WAITAOF_SINCE = (7, 2)
LINK_S = 20


class Redis(Peer):
    name = "redis"
    title = "Redis, primary + replica, appendfsync always"
    copies = 2
    client = "redis"
    client_title = "redis-py, pipelines of XADD"
    open_loop = True
    programs = ("redis-server", "redis-cli")
    roles = ("redis-primary", "redis-replica")

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._ports = {role: place.port() for role in self.roles}

    @property
    def promise(self) -> str:  # type: ignore[override]
        if self._waitaof():
            return "synced on both: WAITAOF 1 1"
        # The replica's answer follows its sync: beforeSleep() flushes the file before it writes to clients.
        return "synced on both: appendfsync always here, WAIT 1 for a replica with appendfsync always"

    def _waitaof(self) -> bool:
        return tuple(int(part) for part in self.versions()["server"].split(".")[:2]) >= WAITAOF_SINCE

    def versions(self) -> dict[str, str]:
        server = version_of(["redis-server", "--version"], 2).removeprefix("v=")
        return {"server": server, **client_versions("redis", "hiredis")}

    def start(self) -> None:
        primary, replica = self.roles
        processes = {}
        for role, port in self._ports.items():
            folder = self.place.role(role)
            options = {
                "port": str(port),
                "bind": HOST,
                "dir": str(folder),
                "appendonly": "yes",
                "appendfsync": "always",
                "auto-aof-rewrite-percentage": "0",  # a rewrite in the middle would be somebody's bad luck
                "save": "",
                "repl-diskless-sync-delay": "0",
                "client-output-buffer-limit": "replica 0 0 0",
            }
            if role == replica:
                options["replicaof"] = f"{HOST} {self._ports[primary]}"
            lines = [
                f'{name} "{value}"' if not value or name == "save" else f"{name} {value}"
                for name, value in options.items()
            ]
            (folder / "redis.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
            processes[role] = self.place.spawn(role, ["redis-server", str(folder / "redis.conf")])
            wait_for_port(port, processes[role])
        for _ in range(LINK_S * 10):
            if "state=online" in self.ask(primary, "INFO", "replication"):
                return
            said("redis-cli", "-p", str(self._ports[primary]), "WAIT", "1", "100")
        raise BenchError("redis: the replica does not come up")

    def ask(self, role: str, *words: str) -> str:
        return said("redis-cli", "-p", str(self._ports[role]), *words)

    def target(self) -> dict[str, Any]:
        return {"host": HOST, "port": self._ports[self.roles[0]], "waitaof": self._waitaof()}

    def settings(self) -> list[Setting]:
        found = []
        for role in self.roles:
            for name, wanted in (("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")):
                found.append(Setting(f"{name} of {role}", wanted, self.ask(role, "CONFIG", "GET", name).split("\n")[1]))
        info = self.ask(self.roles[0], "INFO", "replication")
        online = sum("state=online" in line for line in info.splitlines())
        return [*found, Setting("replicas online", "1", str(online))]

    def described(self) -> dict[str, Any]:
        return {"connections": 5, "pipeline": self.batch, "consumer": "XREADGROUP 1000, XACK and XDEL without WAIT"}

"""Redis, and Valkey, a fork of it: a primary and a replica, both with appendfsync always. An acknowledged batch waited
for the replica's offset.
"""

from __future__ import annotations

from typing import Any, ClassVar

from bench.peers.contract import Setting, client_versions, version_of
from bench.peers.packaged import OLDER, Packaged
from bench.peers.place import HOST, BenchError, Place, wait_for_port
from bench.peers.programs import Programs

LINK_S = 20


class Redis(Packaged):
    name = "redis"
    product = "Redis"
    form = ", primary + replica, appendfsync always"
    copies = 2
    # The replica's answer follows its sync: beforeSleep() flushes the file before it writes to its primary. WAITAOF, of
    # 7.2 and newer, promises no more of such a replica and costs up to a second: the replica says how far it has synced
    # before it syncs (docs/decisions/0058-peers-of-today.md).
    promise = "synced on both: appendfsync always here, WAIT 1 for a replica with appendfsync always"
    client = "redis"
    client_title = "redis-py, pipelines of XADD"
    open_loop = True
    command_stem: ClassVar[str] = "redis"  # of the names of its programs, and of what INFO calls its version
    roles = ("redis-primary", "redis-replica")

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._ports = {role: place.port() for role in self.roles}

    @classmethod
    def program(cls, which: str) -> str:
        """server, cli or benchmark."""
        return f"{cls.command_stem}-{which}"

    @classmethod
    def needed(cls, programs: Programs) -> tuple[str, ...]:  # noqa: ARG003 - they have one name everywhere
        return cls.program("server"), cls.program("cli")

    @classmethod
    def version_in(cls, programs: Programs) -> str:
        return version_of([*programs.prefix, cls.program("server"), "--version"], 2).removeprefix("v=")

    def versions(self) -> dict[str, str]:
        return {"server": self._running(), **client_versions("redis", "hiredis")}

    def _running(self) -> str:
        lines = self.ask(self.roles[0], "INFO", "server").splitlines()
        told = dict(line.split(":", 1) for line in lines if ":" in line)
        return told.get(f"{self.command_stem}_version", "unknown")

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
            processes[role] = self.place.spawn(role, self.command(self.program("server"), str(folder / "redis.conf")))
            wait_for_port(port, processes[role])
        for _ in range(LINK_S * 10):
            if "state=online" in self.ask(primary, "INFO", "replication"):
                return
            self.ask(primary, "WAIT", "1", "100")
        raise BenchError(f"{self.name}: the replica does not come up")

    def ask(self, role: str, *words: str) -> str:
        return self.said(self.program("cli"), "-p", str(self._ports[role]), *words)

    def target(self) -> dict[str, Any]:
        return {"host": HOST, "port": self._ports[self.roles[0]]}

    def settings(self) -> list[Setting]:
        found = [self.version_setting(self._running())]
        for role in self.roles:
            for name, wanted in (("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")):
                found.append(Setting(f"{name} of {role}", wanted, self.ask(role, "CONFIG", "GET", name).split("\n")[1]))
        info = self.ask(self.roles[0], "INFO", "replication")
        online = sum("state=online" in line for line in info.splitlines())
        return [*found, Setting("replicas online", "1", str(online))]

    def described(self) -> dict[str, Any]:
        return {"connections": 5, "pipeline": self.batch, "consumer": "XREADGROUP 1000, XACK and XDEL without WAIT"}


class RedisOlder(Redis):
    name = Redis.name + OLDER
    older = True


class Valkey(Redis):
    name = "valkey"
    product = "Valkey"
    command_stem = "valkey"

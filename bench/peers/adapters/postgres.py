"""PostgreSQL: a primary and a synchronous standby that has synced before a commit is answered; a table is the queue."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from bench.peers.contract import Setting, client_versions, version_of
from bench.peers.packaged import OLDER, Packaged
from bench.peers.place import HOST, BenchError, Place, said, wait_for_port
from bench.peers.programs import Programs

USER = "postgres"  # the server refuses to run as root
FOLDERS = Path("/usr/lib/postgresql")
SETTINGS = {
    "synchronous_commit": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_standby_names": "standby",
    "wal_sync_method": "fdatasync",
}


def binary(name: str, programs: Programs) -> str:
    """Of the newest version that is installed there; distributions keep them off PATH."""
    series = sorted((path.parts[-3] for path in programs.seen(FOLDERS).glob(f"*/bin/{name}")), key=float)
    return str(FOLDERS / series[-1] / "bin" / name) if series else name


def unprivileged(*command: str) -> list[str]:
    if os.geteuid() != 0:
        return list(command)
    return ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups", "--pdeathsig", "KILL", "--", *command]


class Postgres(Packaged):
    name = "postgres"
    open_loop = True
    product = "PostgreSQL"
    form = ", synchronous standby, SKIP LOCKED"
    promise = "synced on both: synchronous_commit on"
    copies = 2
    client = "postgres"
    client_title = "psycopg, 1000 rows a commit"
    roles = ("pg-primary", "pg-standby")

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._ports = {role: place.port() for role in self.roles}

    @classmethod
    def needed(cls, programs: Programs) -> tuple[str, ...]:
        return tuple(binary(name, programs) for name in ("postgres", "initdb", "pg_basebackup"))

    @classmethod
    def version_in(cls, programs: Programs) -> str:
        return version_of([*programs.prefix, binary("postgres", programs), "--version"], 2)

    def binary(self, name: str) -> str:
        """Of the version that is measured."""
        return binary(name, self.installed.programs)

    def _said(self, *words: str, where: Path) -> None:
        """By the server's user, in a folder of its own."""
        said(*unprivileged(*words), prefix=self.installed.programs.prefix, where=where)

    def _folder(self, role: str) -> Path:
        folder = self.place.role(role)
        if os.geteuid() == 0:
            shutil.chown(folder, USER, USER)
        return folder

    def start(self) -> None:
        primary, standby = self.roles
        data = self._folder(primary) / "data"
        self._said(
            self.binary("initdb"), "-D", str(data), "-A", "trust", "-U", "bench", "-E", "UTF8", where=data.parent
        )
        settings = {
            **{name: value for name, value in SETTINGS.items() if name != "synchronous_standby_names"},
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "shared_buffers": "512MB",
            "max_wal_size": "8GB",
            "checkpoint_timeout": "30min",
            "wal_level": "replica",
        }
        lines = [f"{name} = '{value}'" for name, value in settings.items()]
        with (data / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write("\n".join([*lines, "include_if_exists = 'own.conf'", ""]))
        self._serve(primary, data)
        copy = self._folder(standby) / "data"
        dsn = f"host={HOST} port={self._ports[primary]} user=bench"
        how = ("-R", "-c", "fast", "-X", "stream")
        self._said(self.binary("pg_basebackup"), "-D", str(copy), "-d", dsn, *how, where=copy.parent)
        with (copy / "postgresql.auto.conf").open("a", encoding="utf-8") as conf:
            conf.write(f"primary_conninfo = '{dsn} application_name=standby'\n")
        self._serve(standby, copy)
        self.sql("alter system set synchronous_standby_names = 'standby'")
        self.sql("select pg_reload_conf()")
        for _ in range(200):
            if self.sql("select sync_state from pg_stat_replication") == "sync":
                return
        raise BenchError("postgres: the standby is not synchronous")

    def _serve(self, role: str, data: Path) -> None:
        port = self._ports[role]
        command = unprivileged(self.binary("postgres"), "-D", str(data), "-p", str(port))
        process = self.place.spawn(role, self.command(*command))
        wait_for_port(port, process)
        for _ in range(200):  # it listens before it is consistent
            try:
                self.said(self.binary("pg_isready"), "-h", HOST, "-p", str(port))
            except BenchError:
                continue
            return
        raise BenchError(f"{role} does not become ready")

    def sql(self, command: str) -> str:
        address = ["-h", HOST, "-p", str(self.port), "-U", "bench", "-d", "postgres"]
        return self.said(self.binary("psql"), *address, "-Atqc", command).strip()

    @property
    def port(self) -> int:
        """Of the primary."""
        return self._ports[self.roles[0]]

    def target(self) -> dict[str, Any]:
        return {"dsn": f"host={HOST} port={self.port} user=bench dbname=postgres"}

    def settings(self) -> list[Setting]:
        found = [self.version_setting(self._running())]
        found += [Setting(name, value, self.sql(f"show {name}")) for name, value in SETTINGS.items()]
        return [*found, Setting("sync_state", "sync", self.sql("select sync_state from pg_stat_replication"))]

    def versions(self) -> dict[str, str]:
        return {"server": self._running(), **client_versions("psycopg")}

    def _running(self) -> str:
        return self.sql("show server_version").split()[0]

    def described(self) -> dict[str, Any]:
        return {
            "connections": 3,
            "consumer's connections": 3,
            "rows a commit": self.batch,
            "shared_buffers": "512MB",
            "max_wal_size": "8GB",
        }


class PostgresOlder(Postgres):
    name = Postgres.name + OLDER
    older = True

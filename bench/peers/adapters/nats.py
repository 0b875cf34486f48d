"""NATS JetStream, three servers on this machine and a stream with three copies: as Debian ships it, and a current one.

Debian's 2.9 knows no setting that would make it sync before it answers. The current one is built from its Go module
with `sync_interval: always`.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.request
from typing import Any

from bench.peers.contract import Peer, Setting, client_versions, version_of
from bench.peers.place import HOST, KEPT, BenchError, Place, wait_for_port

BUILT = str(KEPT / "bin/nats-server")
PACKAGED = "/usr/sbin/nats-server"
LEADER_S, LOOK_S = 60, 0.1
CONF = """
server_name: {name}
listen: {host}:{port}
http: {host}:{http}
jetstream {{
  store_dir: "{folder}/store"
  max_memory_store: 1GB
  max_file_store: 50GB
  {sync}
}}
cluster {{
  name: bench
  listen: {host}:{between}
  routes: [{routes}]
}}
"""


class Nats(Peer):
    name = "nats"
    open_loop = True
    title = "NATS JetStream R3, sync_interval always"
    promise = "synced by a majority: 2 of 3"
    copies = 2
    client = "nats"
    client_title = "nats-py, publish_async"
    programs: tuple[str, ...] = (BUILT,)
    roles = ("nats-1", "nats-2", "nats-3")
    sync = "sync_interval: always"
    batches = ""  # how a thousand messages have one answer: atomic, fast, or not at all

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._ports = {role: (place.port(), place.port(), place.port()) for role in self.roles}

    def start(self) -> None:
        routes = ", ".join(f'"nats://{HOST}:{between}"' for _, _, between in self._ports.values())
        for role, (port, http, between) in self._ports.items():
            folder = self.place.role(role)
            given = {"name": role, "host": HOST, "port": port, "http": http, "between": between, "routes": routes}
            conf = CONF.format(folder=folder, sync=self.sync, **given)
            (folder / "nats.conf").write_text(conf, encoding="utf-8")
            process = self.place.spawn(role, [self.programs[0], "-c", str(folder / "nats.conf")])
            wait_for_port(port, process)
        for role in self.roles:
            self._wait_healthy(role)

    def _wait_healthy(self, role: str) -> None:
        """Until it says that its JetStream is current, which needs a leader."""
        until = time.monotonic() + LEADER_S
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                if self.ask(role, "healthz")["status"] == "ok":
                    return
            time.sleep(LOOK_S)
        raise BenchError(f"{role} does not become healthy")

    def ask(self, role: str, what: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{HOST}:{self._ports[role][1]}/{what}", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def target(self) -> dict[str, Any]:
        return {"servers": {role: port for role, (port, _, _) in self._ports.items()}, "batches": self.batches}

    def settings(self) -> list[Setting]:
        found = [
            Setting(f"sync_always of {role}", "true", str(self.ask(role, "jsz")["config"].get("sync_always")).lower())
            for role in self.roles
        ]
        return [*found, *self._replicas()]

    def _replicas(self) -> list[Setting]:
        accounts = self.ask(self.roles[0], "jsz?accounts=true&streams=true&config=true")["account_details"]
        streams = [stream["config"] for account in accounts for stream in account["stream_detail"]]
        copies = sorted({str(config["num_replicas"]) for config in streams})
        kinds = sorted({str(config["storage"]) for config in streams})
        return [Setting("replicas of the streams", "3", " ".join(copies)), Setting("storage", "file", " ".join(kinds))]

    def versions(self) -> dict[str, str]:
        server = version_of([self.programs[0], "--version"], 1).removeprefix("v")
        return {"server": server, **client_versions("nats-py")}

    def described(self) -> dict[str, Any]:
        return {"retention": "interest", "ack policy": "all, one for a fetch", "batches": self.batches or "none"}


class NatsAtomic(Nats):
    name = "nats-atomic"
    title = "NATS JetStream R3, sync_interval always, atomic batches"
    client_title = "nats-py, atomic batches of 1000"
    batches = "atomic"


class NatsFast(Nats):
    name = "nats-fast"
    title = "NATS JetStream R3, sync_interval always, fast batches"
    client_title = "nats-py, fast batches of 1000"
    batches = "fast"


class NatsDebian(Nats):
    name = "nats-debian"
    title = "NATS JetStream R3 of Debian, never synced before the answer"
    promise = "in the page cache of a majority: 2 of 3; nothing is synced"
    copies = 0
    programs = (PACKAGED,)
    sync = ""

    def settings(self) -> list[Setting]:
        return self._replicas()

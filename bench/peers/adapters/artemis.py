"""ActiveMQ Artemis: a primary and its backup, replicating; two brokers on this machine, journals of the NIO kind.

The primary syncs its journal before it answers. The backup answers when it has received and never syncs: one synced
copy.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
import urllib.request
from typing import Any

from bench.peers.contract import Peer, Setting, client_versions
from bench.peers.place import HOST, KEPT, BenchError, Place, said, wait_for_port

HOME = KEPT / "artemis"
USER = "bench"
START_S, LOOK_S = 120, 0.2
JOURNAL = "NIO"
"""A broker that is to use libaio and has none falls back to this without a word, so it is asked for, and read back."""
BROKER = "org.apache.activemq.artemis:broker=!%22{}!%22"


class Artemis(Peer):
    name = "artemis"
    title = "ActiveMQ Artemis, replicated pair, NIO journals"
    promise = "synced on the primary and received by the backup, which does not sync"
    copies = 1
    client = "artemis"
    client_title = "stomp.py, receipts"
    programs = (str(HOME / "bin/artemis"), "java")
    roles = ("artemis-primary", "artemis-backup")
    batch = 100
    warm_s = 5.0

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._ports = {role: (place.port(), place.port()) for role in self.roles}

    def start(self) -> None:
        primary, backup = self.roles
        for role, other in ((primary, backup), (backup, primary)):
            folder = self.place.role(role)
            port, http = self._ports[role]
            given = {
                "--name": role, "--user": USER, "--password": USER, "--host": HOST, "--default-port": str(port),
                "--http-host": HOST, "--http-port": str(http), "--cluster-user": USER, "--cluster-password": USER,
                "--staticCluster": f"tcp://{HOST}:{self._ports[other][0]}", "--java-options": "-Xms512m",
            }  # fmt: skip
            flags = ["--silent", "--require-login", "--clustered", "--replicated", "--nio", "--relax-jolokia"]
            flags += ["--no-amqp-acceptor", "--no-mqtt-acceptor", "--no-hornetq-acceptor", "--no-stomp-acceptor"]
            options = [part for pair in given.items() for part in pair]
            backed = ["--backup"] if role == backup else []
            made = folder / "broker"
            said(str(HOME / "bin/artemis"), "create", str(made), *flags, *backed, *options, where=folder)
            process = self.place.spawn(role, [str(made / "bin/artemis"), "run"])
            if role == primary:
                wait_for_port(port, process, START_S)
        self._wait_replicating(process)

    def _wait_replicating(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until and process.poll() is None:
            if self._read().get("ReplicaSync"):
                return
            time.sleep(LOOK_S)
        raise BenchError("artemis: the backup does not come into sync")

    def messages(self, queue: str) -> int:
        """That an address has, as the primary's management says."""
        found = self._read(f",component=addresses,address=!%22{queue}!%22")
        if "MessageCount" not in found:
            raise BenchError(f"artemis: the primary knows of no address {queue}")
        return int(found["MessageCount"])

    def _read(self, part: str = "") -> dict[str, Any]:
        """What the primary's management says of itself, or of a part; nothing while it does not answer."""
        primary = self.roles[0]
        where = f"http://{HOST}:{self._ports[primary][1]}/console/jolokia/read/{BROKER.format(primary)}{part}".replace(
            "!", ""
        )
        login = base64.b64encode(f"{USER}:{USER}".encode()).decode()
        asked = urllib.request.Request(where, headers={"Authorization": f"Basic {login}", "Origin": f"http://{HOST}"})
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                found: dict[str, Any] = json.load(answer).get("value", {})
        except OSError:
            return {}
        return found

    def target(self) -> dict[str, Any]:
        return {"host": HOST, "port": self._ports[self.roles[0]][0], "user": USER, "password": USER}

    def settings(self) -> list[Setting]:
        found = self._read()
        wanted = {
            "ReplicaSync": "True",
            "HAPolicy": "Replication Primary w/quorum voting",
            "JournalType": JOURNAL,
            "JournalSyncNonTransactional": "True",
            "JournalSyncTransactional": "True",
            "PersistenceEnabled": "True",
        }
        return [Setting(name, value, str(found.get(name))) for name, value in wanted.items()]

    def versions(self) -> dict[str, str]:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False, env=os.environ)
        return {
            "server": str(self._read().get("Version", "unknown")),
            "java": java.stderr.split('"')[1] if '"' in java.stderr else "unknown",
            **client_versions("stomp.py"),
        }

    def described(self) -> dict[str, Any]:
        return {"journal": f"{JOURNAL}, buffer as `artemis create` tunes it", "acks": "100 at once"}

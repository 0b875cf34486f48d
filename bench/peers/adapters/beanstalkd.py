"""beanstalkd: one process, a log that is synced at every put and every delete (-f0). It has no replication."""

from __future__ import annotations

import socket
from typing import Any

from bench.peers.contract import Peer, Setting, version_of
from bench.peers.place import HOST, BenchError, Place, wait_for_port


class Beanstalkd(Peer):
    name = "beanstalkd"
    title = "beanstalkd, one process, fsync at every operation"
    promise = "synced on one node, deletes too"
    copies = 1
    client = "beanstalkd"
    client_title = "its text protocol, pipelined"
    programs = ("beanstalkd",)
    roles = ("beanstalkd",)
    batch = 100
    window = 1000

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._port = place.port()

    def start(self) -> None:
        folder = self.place.role("beanstalkd")
        (folder / "log.d").mkdir(exist_ok=True)
        command = ["beanstalkd", "-l", HOST, "-p", str(self._port), "-b", str(folder / "log.d"), "-f", "0"]
        wait_for_port(self._port, self.place.spawn("beanstalkd", [*command, "-z", str(2 << 20)]))

    def target(self) -> dict[str, Any]:
        return {"host": HOST, "port": self._port}

    def settings(self) -> list[Setting]:
        """It tells of its log alone; how often that is synced only the count of syncs shows."""
        with socket.create_connection((HOST, self._port)) as connection, connection.makefile("rb") as answers:
            connection.sendall(b"stats\r\n")
            word, size = answers.readline().split()
            if word != b"OK":
                raise BenchError(f"beanstalkd answers {word!r} to stats")
            stats = answers.read(int(size)).decode()
        logged = any(
            line.startswith("binlog-current-index: ") and not line.endswith(" 0") for line in stats.splitlines()
        )
        return [Setting("writes a log", "yes", "yes" if logged else "no")]

    def versions(self) -> dict[str, str]:
        return {"server": version_of(["beanstalkd", "-v"], 1)}

    def described(self) -> dict[str, Any]:
        return {"options": "-b -f 0"}

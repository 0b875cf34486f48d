"""RabbitMQ: a quorum queue on three nodes of this machine, or a durable classic queue on one. Publisher confirms."""

from __future__ import annotations

import json
import os
import secrets
import time
from functools import cache
from pathlib import Path
from typing import Any

from bench.peers.contract import Setting, client_versions
from bench.peers.packaged import OLDER, Packaged
from bench.peers.place import HOST, BenchError, Place, said, wait_for_port
from bench.peers.programs import Programs, Version

PACKAGE = Path("/usr/lib/rabbitmq/lib")
SCRIPTS = "/usr/lib/rabbitmq/bin"  # the ones on PATH change to the packaged service's user
START_S = 120.0
# Three nodes on few cores: a scheduler that spins while it waits takes the others' time.
ERLANG = "+sbwt none +sbwtdcpu none +sbwtdio none"
ABOUT = (
    "rabbit_misc:version(), erlang:system_info(otp_release), "
    "application:get_env(ra, wal_sync_method, datasync), application:get_env(ra, wal_write_strategy, default)"
)
START_DELAYS = (
    "cluster_formation.randomized_startup_delay_range.min = 0",
    "cluster_formation.randomized_startup_delay_range.max = 1",
)
FOURTH = (4,)
"""From here on a first node waits for those that it is to find, one that is asked for a delay does not start, and a
classic queue syncs nothing before it confirms."""
LOOPBACK = "-kernel inet_dist_use_interface {127,0,0,1}"


class Quorum(Packaged):
    name = "rabbitmq-quorum"
    product = "RabbitMQ"
    form = " quorum queue, 3 nodes"
    promise = "synced by a majority: 2 of 3"
    copies = 2
    client = "rabbitmq"
    client_title = "pika SelectConnection, publisher confirms"
    open_loop = True
    roles = ("rabbit-1", "rabbit-2", "rabbit-3")
    queue_type = "quorum"
    batch = 100

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._epmd_port = place.port()
        self._ports = {role: (place.port(), place.port()) for role in self.roles}

    @classmethod
    def needed(cls, programs: Programs) -> tuple[str, ...]:  # noqa: ARG003 - they have one name everywhere
        return f"{SCRIPTS}/rabbitmq-server", "epmd"

    @classmethod
    def version_in(cls, programs: Programs) -> str:
        """As its folder says: without a node nothing else tells."""
        names = [path.name.partition("-")[2] for path in programs.seen(PACKAGE).glob("rabbitmq_server-*")]
        return max(map(Version.of, names)).text if names else "0"

    def _node(self, role: str) -> str:
        return f"{role.replace('-', '')}@localhost"

    def _environment(self, role: str) -> dict[str, str]:
        folder = self.place.role(role)
        port, between = self._ports[role]
        return {
            "HOME": str(self.place.role(self.roles[0])),  # one cookie for all
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_NODENAME": self._node(role),
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(between),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{ERLANG} {LOOPBACK}",
            "LANG": "C.UTF-8",
        }

    def start(self) -> None:
        epmd = self.place.spawn(
            self.roles[0], self.command("epmd", "-port", str(self._epmd_port), "-address", HOST), log="epmd.log"
        )
        wait_for_port(self._epmd_port, epmd)
        cookie = self.place.role(self.roles[0]) / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(16), encoding="utf-8")
        cookie.chmod(0o400)
        lines = self.configuration()
        processes = {}
        for role in self.roles:
            folder = self.place.role(role)
            (folder / "plugins").write_text("[].\n", encoding="utf-8")
            (folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
            processes[role] = self.place.spawn(
                role, self.command(f"{SCRIPTS}/rabbitmq-server"), self._environment(role)
            )
            if role == self.roles[0] and not self._is_fourth:  # who the others join
                wait_for_port(self._ports[role][0], processes[role], START_S)
        for role in self.roles:
            wait_for_port(self._ports[role][0], processes[role], START_S)
        self._wait_running()

    def configuration(self) -> list[str]:
        """Of each node."""
        nodes = [f"cluster_formation.classic_config.nodes.{n} = {self._node(r)}" for n, r in enumerate(self.roles, 1)]
        return [
            "cluster_formation.peer_discovery_backend = classic_config",
            *nodes,
            *(() if self._is_fourth else START_DELAYS),
            "disk_free_limit.absolute = 1GB",
        ]

    @property
    def _is_fourth(self) -> bool:
        return self.installed.version.numbers >= FOURTH

    def _wait_running(self) -> None:
        """A node listens before it takes orders, and is counted by the others after that."""
        self.tell("await_startup", "--timeout", str(round(START_S)))
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            running = json.loads(self.tell("cluster_status", "--formatter", "json"))["running_nodes"]
            if len(running) == len(self.roles):
                return
        raise BenchError(f"rabbitmq: {len(self.roles)} nodes do not run as one cluster")

    def tell(self, *words: str) -> str:
        role = self.roles[0]
        return said(
            f"{SCRIPTS}/rabbitmqctl", "-q", "-n", self._node(role), *words,
            environment=self._environment(role), where=self.place.role(role), prefix=self.installed.programs.prefix,
        )  # fmt: skip

    def target(self) -> dict[str, Any]:
        # The first node: a queue's leader is where it was declared.
        return {"host": HOST, "port": self._ports[self.roles[0]][0], "queue_type": self.queue_type}

    def settings(self) -> list[Setting]:
        listed = json.loads(
            self.tell("list_queues", "name", "type", "durable", "members", "leader", "--formatter", "json")
        )
        types = sorted({str(queue["type"]) for queue in listed})
        members = sorted({str(len(queue["members"])) for queue in listed})
        leaders = sorted({str(queue["leader"]) for queue in listed})
        return [
            self.version_setting(self._about()["server"]),
            Setting("type of the queues", "quorum", " ".join(types)),
            Setting("members of the queues", "3", " ".join(members)),
            Setting("leader of the queues", self._node(self.roles[0]), " ".join(leaders)),
            # ra's defaults, which are not set unless somebody changed them
            Setting("wal_sync_method", "datasync", self._about()["sync"]),
            Setting("wal_write_strategy", "default", self._about()["write"]),
        ]

    def versions(self) -> dict[str, str]:
        about = self._about()
        return {"server": about["server"], "erlang": about["erlang"], **client_versions("pika")}

    @cache  # noqa: B019 - an adapter lives as long as its run, and each question takes seconds
    def _about(self) -> dict[str, str]:
        words = self.tell("eval", f'lists:flatten(io_lib:format("~s ~s ~p ~p", [{ABOUT}])).').strip().strip('"').split()
        return dict(zip(("server", "erlang", "sync", "write"), words, strict=True))

    def described(self) -> dict[str, Any]:
        return {"acks": "100 at once, multiple", "prefetch": self.window, "erlang": ERLANG}


class Single(Quorum):
    name = "rabbitmq-single"
    form = " classic durable queue, 1 node"
    roles = ("rabbit-1",)
    queue_type = "classic"

    @property
    def promise(self) -> str:  # type: ignore[override]
        if self._is_fourth:
            return "in the page cache of one node; nothing is synced"
        return "synced on one node; consumers' acknowledgements are synced later"

    @property
    def copies(self) -> int:  # type: ignore[override]
        return 0 if self._is_fourth else 1

    def settings(self) -> list[Setting]:
        listed = json.loads(self.tell("list_queues", "name", "type", "durable", "--formatter", "json"))
        types = sorted({str(queue["type"]) for queue in listed})
        durable = sorted({str(queue["durable"]).lower() for queue in listed})
        return [
            self.version_setting(self._about()["server"]),
            Setting("type of the queues", "classic", " ".join(types)),
            Setting("durable", "true", " ".join(durable)),
        ]


class QuorumOlder(Quorum):
    name = Quorum.name + OLDER
    older = True


class SingleOlder(Single):
    name = Single.name + OLDER
    older = True

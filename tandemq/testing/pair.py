"""A pair and its witness as a test sees them: where they are, how they do, and kill, freeze, start, hand over.

Every call waits until the deed is done, and may come from any thread: from a coroutine, use `asyncio.to_thread`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tandemq.testing.host import Host

if TYPE_CHECKING:
    from tandemq.client.blocking import Client

WHOLE_S = 60.0


class Process(NamedTuple):
    """One process now. `ending` is how it ended, "running" while it runs."""

    pid: int
    running: bool
    frozen: bool
    ending: str


class Register(NamedTuple):
    """What the witness has recorded of the pair."""

    epoch: int
    master: str
    in_sync: tuple[str, ...]


class Pair:
    """Members a and b, real processes with disks of their own. Given by the fixture `tandemq_pair`.

    Where a method takes `who`, it is a member's name, "master", "replica" or "both". All raise TandemqTestError.
    """

    def __init__(self, host: Host, facts: Mapping[str, Any], directory: Path) -> None:
        self._host = host
        self.target: str = facts["target"]
        """What a client is given: both members' endpoints."""
        self.endpoints: dict[str, str] = dict(facts["endpoints"])
        """Each member's host:port, by name."""
        self.credentials: str = facts["credentials"]
        """A directory of the administrator's, who may do everything; empty: the pair has no certificates."""
        self.environment = _environment(self.target, self.credentials)
        """For processes of the application: `connect()` without an argument finds the pair."""
        self.base_port: int = facts["base_port"]
        self.directory = directory
        """Where the members keep everything, and `logs/`."""
        self._clients: list[Client] = []

    def client(self, timeout: float = 30.0) -> Client:
        """A blocking client of the pair that may do everything, closed at the end of the test. For asyncio:
        `tandemq.aio.connect(pair.target, credentials=pair.credentials)`.
        """
        return self.client_of(self.credentials, timeout)

    def client_of(self, credentials: str, timeout: float = 30.0) -> Client:
        """One with those credentials, closed at the end of the test."""
        import tandemq

        self._clients.append(tandemq.connect(self.target, timeout=timeout, credentials=credentials or None))
        return self._clients[-1]

    def principal(self, name: str) -> Principal:
        """A client of that name, with a certificate and without any right. May be asked for again."""
        return Principal(self, name, str(self._host.ask("principal", name=name)))

    def close_clients(self) -> None:
        """The plugin does, at the end of the test."""
        while self._clients:
            self._clients.pop().close()

    def status(self) -> dict[str, Any]:
        """What both members say, as `tandemq pair status -o json` has it."""
        view: dict[str, Any] = self._host.ask("status")["view"]
        return view

    @property
    def master(self) -> str:
        """The member that is master now; empty while none is."""
        return str(self._host.ask("status")["master"])

    @property
    def is_whole(self) -> bool:
        """A master, and a replica that holds all the master holds."""
        return bool(self._host.ask("status")["whole"])

    def wait_whole(self, within_s: float = WHOLE_S) -> str:
        """Returns when the pair is whole, with the master's name. Raises when a process ended that nobody killed.

        A member that was frozen for long may end itself when it goes on: it is started again.
        """
        return str(self._host.ask("whole", within_s=within_s)["master"])

    @property
    def processes(self) -> dict[str, Process]:
        """By name: a, b and witness."""
        found = self._host.ask("status")["processes"]
        return {
            name: Process(each["pid"], each["running"], each["paused"], each["ending"]) for name, each in found.items()
        }

    def kill(self, who: str = "master") -> list[str]:
        """kill -9. Returns the names, when they are gone; nothing starts again by itself."""
        return list(self._host.ask("kill", who=who))

    def start(self, who: str) -> list[str]:
        """Starts who is gone; returns when it answers. See `wait_whole`."""
        return list(self._host.ask("run", who=who))

    def freeze(self, who: str = "master") -> list[str]:
        """SIGSTOP: alive, and silent."""
        return list(self._host.ask("freeze", who=who))

    def thaw(self, who: str) -> list[str]:
        """SIGCONT. Name the member: the one that was frozen may be master no more."""
        return list(self._host.ask("thaw", who=who))

    def handoff(self, to: str = "") -> str:
        """Moves the mastership in order, without loss; to the other member unless one is named. Returns the new master.

        Raises when it is refused.
        """
        return str(self._host.ask("handoff", to=to)["master"])

    def heal(self) -> None:
        """Thaws, starts and heals everything, and waits until the pair is whole."""
        self._host.ask("heal")


class Principal:
    """Somebody with a certificate of the pair. Given by the fixture `tandemq_principal`."""

    def __init__(self, pair: Pair, name: str, credentials: str) -> None:
        self._pair = pair
        self.name = name
        self.credentials = credentials
        """A directory with ca.pem, cert.pem and key.pem."""
        self.environment = _environment(pair.target, credentials)
        """For processes that act as this one."""

    def client(self, timeout: float = 30.0) -> Client:
        """A blocking client, closed at the end of the test."""
        return self._pair.client_of(self.credentials, timeout)

    def grant(self, right: str, pattern: str = "") -> None:
        """The administrator's word: produce, consume, browse or administer queues, observe or operate the pair."""
        self._pair.client().grant_right(self.name, right, pattern)

    def revoke(self, right: str, pattern: str = "") -> None:
        """Takes it back."""
        self._pair.client().revoke_right(self.name, right, pattern)


def _environment(target: str, credentials: str) -> dict[str, str]:
    return {"TANDEMQ_TARGET": target, **({"TANDEMQ_CREDENTIALS": credentials} if credentials else {})}


class Witness:
    """The third voice of the pair. Given by the fixture `tandemq_witness`."""

    def __init__(self, host: Host, facts: Mapping[str, Any]) -> None:
        self._host = host
        self.endpoint: str = facts["witness"]

    def register(self) -> Register:
        """What it has recorded. Raises TandemqTestError when it does not answer."""
        found = self._host.ask("register")
        return Register(found["epoch"], found["holder"], tuple(found["in_sync"]))

    def kill(self) -> None:
        """kill -9: from now on no member can be made master by it."""
        self._host.ask("kill", who="witness")

    def start(self) -> None:
        """Starts it when it is gone; it remembers."""
        self._host.ask("run", who="witness")

    def freeze(self) -> None:
        """SIGSTOP."""
        self._host.ask("freeze", who="witness")

    def thaw(self) -> None:
        """SIGCONT."""
        self._host.ask("thaw", who="witness")

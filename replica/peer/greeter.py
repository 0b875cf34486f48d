"""Says HELLO: who this member is, which start of it this process is, and where its domains stand. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.node.protocols import spoken
from tandemq.peer.v1.peer_service_pb2 import Hello

if TYPE_CHECKING:
    from replica.node.loop import Node
    from replica.peer.session import Current
    from tandemq.config import ManagerConfig


class Greeter:
    """Of one member."""

    def __init__(self, node: Node, config: ManagerConfig, instance: str, process_id: bytes, start: int) -> None:
        self._node, self._config = node, config
        self._instance, self._process_id = instance, process_id
        self._start = start

    def hello(self) -> Hello:
        """As things stand."""
        protocols = spoken(self._node)
        return Hello(
            pair=self._config.pair,
            member=self._config.member,
            instance_id=self._instance,
            incarnation=self._start,
            process_id=self._process_id,
            protocol_min=protocols.oldest,
            protocol_max=protocols.newest,
            endpoint=self._config.endpoint,
            domains=[domain.hello() for domain in self._node.paired()],
        )

    def say(self) -> None:
        """Role, epoch or log have changed (P12); to nobody where there is no connection."""
        if self._node.outbox_open:
            self._node.send_hello(self.hello())

    def on_counted(self, start: int) -> None:
        """This start has that number from now on."""
        self._start = start
        self.say()


class OwnStart:
    """What follows at the connection where this process turns out to be another start."""

    def __init__(self, greeter: Greeter, current: Current, *, dials: bool) -> None:
        self._greeter, self._current, self._dials = greeter, current, dials

    def on_old(self, text: str) -> None:
        """The copy is an older one: the peer hears of it on a new connection."""
        self._current.close(text)

    def on_number(self, number: int) -> None:
        """It may be filled before it is counted: then the peer that has dialled has to know which start that was."""
        if not self._dials:
            self._greeter.on_counted(number)

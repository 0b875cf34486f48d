"""Bugs of the client library: what is sent again, under which identity, and what the caller gets; plants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chaos.sim.bugs.planting import Patch, bug
from tandemq.client.outbox import Outbox
from tandemq.client.producer import Producer
from tandemq.client.settling import Settling

if TYPE_CHECKING:
    from tandemq.v1.queue_service_pb2 import ConsumeSettled


@bug(
    "sdk-renumbers",
    "ruling 17",
    "After a reconnect the SDK sends what is unanswered under new sequences.",
    "swarm",
    first=8,
)
def renumbers(patch: Patch) -> None:
    original = Outbox.opened

    def opened(self: Outbox, last_sequence: int, batches_max: int, batch_bytes_max: int) -> None:
        self._next = 0
        original(self, last_sequence, batches_max, batch_bytes_max)

    patch.setattr(Outbox, "opened", opened)


@bug("sdk-new-identity", "ruling 17", "The SDK opens every stream under a new identity.", "swarm", first=6)
def new_identity(patch: Patch) -> None:
    original = Producer._session

    async def session(self: Producer, endpoint: str) -> None:
        self._generation += 1
        self._outbox._next = 0
        await original(self, endpoint)

    patch.setattr(Producer, "_session", session)


@bug("sdk-drops-unanswered", "R119", "After a goaway the SDK does not send again what is unanswered.", "swarm", first=1)
def drops_unanswered(patch: Patch) -> None:
    original = Outbox.opened

    def opened(self: Outbox, last_sequence: int, batches_max: int, batch_bytes_max: int) -> None:
        original(self, last_sequence, batches_max, batch_bytes_max)
        self._written = len(self._unanswered)

    patch.setattr(Outbox, "opened", opened)


@bug("sdk-hides-lost-lease", "semantics 3.7", "The SDK takes a refused settle for a confirmed one.", "swarm", first=1)
def hides_lost_leases(patch: Patch) -> None:
    original = Settling.on_settled

    def on_settled(self: Settling, settled: ConsumeSettled) -> Any:
        for result in settled.results:
            result.ClearField("error")
        return original(self, settled)

    patch.setattr(Settling, "on_settled", on_settled)

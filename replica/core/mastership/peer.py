"""The other member of one domain as this one knows it, and the SYNC that is made of its HELLO. Never decides who is
master.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.log_end import UNKNOWN_END, LogEnd, log_end
from failover.marks import DataMark, Role
from replica.core.replication.sync_source import Phase
from replica.core.state.durable import data_of

if TYPE_CHECKING:
    from replica.core.replication.sync_source import SyncSource
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import DomainHello

MASTER_NUMBERS = (Role.MASTER.value, Role.MASTER_SUSPENDED.value)


class Peer:
    """Whether it is connected, what it said last, and since when it is lost."""

    def __init__(self, shared: Shared, source: SyncSource) -> None:
        self.shared = shared
        self.source = source
        self.connected = False
        self.hello: DomainHello | None = None
        """Its last one over this connection."""
        self.hello_is_new = False
        """No SYNC was made from it yet."""
        self.lost_at_ms: int | None = None
        self.refused = False
        """The link was reset and the reconnect refused: its process is gone."""
        self.sync_when_read = False
        """A SYNC is made of its HELLO once the register has been read."""
        self.rejoin_at_ms = 0
        """It was left behind because it was slow, and is taken back from then on."""
        self.checked = 0
        """The transfer that was found whole while a claim was under way."""

    # -- the connection --------------------------------------------------------------------------------------------

    def on_connected(self) -> None:
        """The Data stream is open; HELLOs cross."""
        self.connected = True
        self.hello = None
        self.lost_at_ms = None
        self.refused = False

    def on_disconnected(self) -> None:
        """The connection is gone; the peer is not lost yet."""
        self.connected = False
        self.hello = None

    def on_lost(self, now_ms: int, *, refused: bool) -> None:
        """It counts as lost."""
        if self.lost_at_ms is None:
            self.lost_at_ms = now_ms
        self.refused = self.refused or refused

    def forget_loss(self) -> None:
        """This member serves, and begins to wait for its peer anew; one that is away stays lost."""
        if self.connected:
            self.lost_at_ms = None

    def leave_until(self, moment_ms: int) -> None:
        """It is too slow: nothing is sent to it before that."""
        self.rejoin_at_ms = moment_ms

    def on_hello(self, hello: DomainHello) -> None:
        """Where it stands now (P12)."""
        self.hello = hello
        self.hello_is_new = self.source.phase is Phase.IDLE

    # -- what it said ----------------------------------------------------------------------------------------------

    @property
    def is_master(self) -> bool:
        """It is connected, and said so."""
        return self.hello is not None and self.hello.role in MASTER_NUMBERS

    @property
    def is_lost(self) -> bool:
        """It is lost, and has not come back."""
        return self.lost_at_ms is not None and not self.connected

    @property
    def highest_epoch(self) -> int:
        """The highest number that it is in or has promised."""
        hello = self.hello
        return max(hello.epoch, hello.promised_epoch) if hello is not None else 0

    @property
    def last_index(self) -> int:
        """Of its log, as far as it is known."""
        return self.source.peer_durable or (self.hello.last_index if self.hello is not None else 0)

    def data(self) -> DataMark | None:
        """What its copy is worth. One that waits for an operator takes part in nothing, whatever it holds."""
        if self.hello is None:
            return None
        return DataMark.STALE if self.hello.role == Role.DIVERGED.value else data_of(self.hello.data_state)

    def end(self) -> LogEnd:
        """Where its log ends."""
        if self.hello is None:
            return UNKNOWN_END
        history = [(each.epoch, each.first_index) for each in self.hello.history]
        return log_end(history, self.hello.last_index, self.hello.digest)

    # -- SYNC ------------------------------------------------------------------------------------------------------

    def sync_later(self) -> None:
        """Make one once the register has been read."""
        self.sync_when_read = True

    def forget_sync(self) -> None:
        """This member is master no more."""
        self.sync_when_read = False

    def rejoin(self, now_ms: int) -> None:
        """Make one, if it was left behind and its time has come."""
        if self.rejoin_at_ms and now_ms >= self.rejoin_at_ms and self.source.phase is Phase.IDLE:
            self.begin_sync(now_ms)

    def begin_sync(self, now_ms: int) -> None:
        """Make a SYNC of its HELLO, if none was made of it.

        P12: one HELLO, one SYNC. The peer's log goes on with what we send; a second SYNC from the same HELLO would cut
        what it has acknowledged since. The peer sends a new HELLO when it hears that we stepped down.
        """
        self.sync_when_read = False
        if self.connected and self.hello is not None and self.hello_is_new and now_ms >= self.rejoin_at_ms:
            self.hello_is_new = False
            self.source.begin(self.hello)

    def keep_filling(self) -> bool:
        """P22: a full transfer that is under way goes on in this epoch; the HELLO that says who is master names it."""
        source, hello = self.source, self.hello
        if not self.connected or hello is None or hello.role == Role.DIVERGED.value or not source.goes_on:
            return False
        if not hello.stays_with_transfer:
            return False  # it would go to PROBE, and wait for a SYNC
        source.release()
        if self.checked:
            number, self.checked = self.checked, 0
            source.on_checked(number)
        return True

    def on_checked(self, sync_id: int) -> None:
        """What a full transfer reads is whole. Between two epochs nothing begins: SYNC_BEGIN belongs to the next."""
        if self.shared.serving:
            self.source.on_checked(sync_id)
        else:
            self.checked = sync_id

    def on_not_whole(self, sync_id: int) -> bool:
        """What a full transfer reads is damaged. False: the session ends, and the next one tries again."""
        return self.shared.serving and self.source.on_not_whole(sync_id)

"""What is committed: who must hold an operation, and how far they all do. Never decides who is master.

A member is required before the register is asked to name it, and until the register has removed it (P2, P3): required
is never narrower than what the register names or may come to name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from failover.marks import DataMark, Link
from failover.register import Change, SetOutcome, add_member
from replica.core.mastership.register_view import nonce_of
from replica.core.replication.sync_source import Phase
from replica.core.state.effects import Purpose, SetRegister
from replica.core.state.write_tokens import SoloStored

if TYPE_CHECKING:
    from failover.register import Register
    from replica.core.mastership.register_view import RegisterView
    from replica.core.replication.sync_source import SyncSource
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import OpAck, OpenAck


class ClientCalls(Protocol):
    """What becomes of clients' calls when the mastership comes, goes, or commits."""

    def on_serving(self) -> None:
        """This member serves: take what was parked."""
        ...

    def on_not_serving(self) -> None:
        """The mastership is gone: park or hand back what is unanswered."""
        ...

    def on_committed(self) -> None:
        """The commit index has moved."""
        ...


class CommitRule:
    """The required set, the addition of the peer to it, and the commit index that follows."""

    def __init__(self, shared: Shared, source: SyncSource, view: RegisterView, calls: ClientCalls) -> None:
        self.shared = shared
        self.source = source
        self.view = view
        self.calls = calls
        self.required: frozenset[str] = frozenset()
        """Members whose fsync a commit needs; empty: this member is not master."""
        self.alone_up_to = 0
        """Released alone and not yet seen at the peer that is required since; 0: there is nothing of the kind."""
        self.epoch_first = 0
        """Log index of the first record of our epoch: nothing commits below it in a new epoch (P10)."""
        self.publishing = False
        """The register was asked to name the peer, and has not answered."""
        self.recording = 0
        """Writes of `solo_since` that are not durable yet."""
        self.waiting = (0, 0)
        """(commit index, when it moved or nothing was owed)."""

    # -- with the role ---------------------------------------------------------------------------------------------

    def begin(self, members: frozenset[str], now_ms: int) -> None:
        """An epoch is served; a peer's slowness is counted from here on."""
        self.required = members
        self.alone_up_to = 0
        self.waiting = (self.shared.progress.commit_index, now_ms)

    def begin_epoch(self, first_index: int) -> None:
        """The first record of our epoch is in the log."""
        self.epoch_first = first_index

    def end(self) -> None:
        """This member is master no more; what the register answers about an addition is not heard."""
        self.required = frozenset()
        self.publishing = False

    # -- the peer is added -----------------------------------------------------------------------------------------

    def on_op_ack(self, ack: OpAck) -> None:
        """The replica's durable index."""
        if self.shared.serving:
            self.source.on_op_ack(ack)
            self.advance()
            self._confirm()
            if self.view.register is not None and self.is_synced() and self.shared.link is not Link.PAIRED:
                self.publish(self.view.register)

    def on_open_ack(self, ack: OpenAck, *, unrecorded: bool) -> None:
        """The replica holds everything up to SYNC_END: require it from now on, then publish it (P3). `unrecorded`: the
        epoch served is not in the register yet.
        """
        if not self.shared.serving or not self.source.on_open_ack(ack):
            return
        if self.shared.peer not in self.required:
            self.alone_up_to = self.shared.progress.commit_index
        self.required = self.required | {self.shared.peer}
        self.advance()
        self._confirm()
        register = self.view.register
        named = register is not None and self.shared.peer in register.in_sync_set
        if (named and register is not None and register.holder == self.shared.member) or (
            unrecorded and (named or register is None)
        ):
            self.paired()
        elif register is not None:
            self.publish(register)

    def is_synced(self) -> bool:
        """The peer is required, and all of the log is sent to it as it grows."""
        return self.source.phase is Phase.LIVE and self.shared.peer in self.required

    def publish(self, register: Register) -> None:
        """Have the register name the peer, once that may be."""
        # P3: the peer's durable index must reach everything released so far before it may be named.
        # P7: on our own committed record only; what is known of the register may be older than our epoch by now.
        # And it is on disk here that nothing is alone any more: else a later cut of what nobody was answered looked
        # like the loss of an answer.
        if (
            self.publishing
            or not self.view.owns(register)
            or self.recording
            or self.shared.state.solo_since
            or self.source.peer_durable < self.shared.progress.commit_index
            or self.shared.peer in register.in_sync_set
        ):
            return
        self.publishing = True
        nonce = nonce_of(self.shared, register.version + 1)
        desired = add_member(register, member_added=self.shared.peer, nonce=nonce)
        self.shared.outbox.add(SetRegister(register, desired, self.add_purpose))

    @property
    def add_purpose(self) -> Purpose:
        """The addition in this epoch."""
        return Purpose(Change.ADD, self.shared.state.epoch)

    def on_add_result(self, outcome: SetOutcome, now_ms: int) -> None:
        """The addition has ended."""
        self.publishing = False
        if outcome is SetOutcome.DONE:
            self.paired()
        else:
            self.view.read(now_ms)  # still required (P2, P3): read again, and repeat or leave through a new epoch

    def paired(self) -> None:
        """The register names both members, or will once it answers."""
        shared = self.shared
        if self.source.phase is Phase.LIVE:
            if shared.link is not Link.PAIRED:
                shared.outbox.note_transfer(f"{shared.peer} is in step: what is acknowledged has two copies")
            shared.set_link(Link.PAIRED)
        shared.mark(DataMark.IN_SYNC)
        shared.state.name_in_sync(self.required)
        shared.outbox.persist_state()
        self.calls.on_serving()

    # -- commit ----------------------------------------------------------------------------------------------------

    @property
    def copies(self) -> int:
        """Members that hold what is committed now."""
        return 1 if self.alone_up_to or not self.source.peer_is_good else len(self.required)

    @property
    def can_commit(self) -> bool:
        """Whether an operation ordered now is expected to commit: alone by right, or with a peer that is in step."""
        return not self.shared.draining and self._could_commit

    @property
    def _could_commit(self) -> bool:
        if not self.shared.serving:
            return False
        return self.shared.peer not in self.required or (self.is_synced() and not self.shared.suspect)

    @property
    def can_finish(self) -> bool:
        """As `can_read`, and while a handoff drains too: for what ends with this mastership."""
        return self._could_commit and self.shared.progress.commit_index >= self.epoch_first

    @property
    def can_read(self) -> bool:
        """Whether all that was acknowledged before our epoch can be seen: it is committed with our first record (P10),
        and a question that is answered before would find queues empty that are not.
        """
        return self.can_commit and self.shared.progress.commit_index >= self.epoch_first

    def record_solo(self, solo_since: int) -> None:
        """Write from where on this member answers alone (0: nothing is alone any more)."""
        if self.shared.peer and bool(solo_since) is not bool(self.shared.state.solo_since):
            self.shared.state.answer_alone_from(solo_since)
            self.recording += 1
            self.shared.outbox.persist_state(token=SoloStored())

    def _confirm(self) -> None:
        """The peer is required and holds all that was answered alone, which includes what came before our epoch."""
        if self.shared.peer in self.required and self.source.peer_durable >= max(self.alone_up_to, self.epoch_first):
            self.record_solo(0)

    def on_solo_durable(self) -> None:
        """It is on disk where this member began or ceased to answer alone."""
        self.recording -= 1
        self.advance()
        register = self.view.register
        if register is not None and self.shared.serving and self.is_synced() and self.shared.link is not Link.PAIRED:
            self.publish(register)

    def advance(self) -> None:
        """Commit what every required member holds, but nothing before the first record of our epoch (P10), and nothing
        alone before it is on disk that we are (`divergence`).
        """
        if not self.shared.serving or self.recording:
            return
        shared = self.shared
        if self.source.peer_durable >= self.alone_up_to:
            self.alone_up_to = 0
        progress = shared.progress
        commit_index = progress.durable_index
        if shared.peer in self.required:
            commit_index = min(commit_index, self.source.peer_durable)
        if commit_index >= self.epoch_first and commit_index > progress.commit_index:
            progress.commit(commit_index)
            self.calls.on_committed()

    def waited_ms(self, now_ms: int) -> int | None:
        """How long something is owed and the peer has not come a step further; None: it has, or nothing is."""
        commit_index = self.shared.progress.commit_index
        owed = self.shared.peer in self.required and commit_index < self.shared.log.last_index
        if not owed or commit_index != self.waiting[0]:
            self.waiting = (commit_index, now_ms)
            return None
        return now_ms - self.waiting[1]

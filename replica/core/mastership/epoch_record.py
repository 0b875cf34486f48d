"""Decides what the first record of an epoch says, and with it what the domain's history is called; never who is master.

A new pair begins with epoch 1 and log index 1 as the one before it did, so (epoch, log index) names a record within one
history alone. The id of a history is made once, by the first epoch that finds none, and is part of the queues' state
from then on: the same at both members, after a takeover, a full transfer and a restore, and another one after a wipe.
Members judge each other by epochs and digests; the id is for whoever reads and comes back (docs/decisions/0039).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from tandemq.peer.v1.record_pb2 import RecordHeader, RoleOp

if TYPE_CHECKING:
    from replica.core.mastership.role import ClaimUnderWay
    from replica.core.state.shared import Shared

HISTORY_ID_BYTES = 16


def new_history_id(instance: bytes, domain: str, epoch: int) -> bytes:
    """Without a random source: the directory's instance id is drawn when it is made, and has each epoch once."""
    name = f"{domain}/{epoch}/".encode()
    return blake2b(name + instance, digest_size=HISTORY_ID_BYTES, person=b"history-id").digest()


def epoch_record(shared: Shared, under_way: ClaimUnderWay, time_ms: int) -> RecordHeader:
    """Of the claim that is under way, at this domain time."""
    machine = shared.machine
    known = machine is not None and machine.history_id
    return RecordHeader(
        time_ms=time_ms,
        role=RoleOp(
            owner=shared.member,
            in_sync_set=sorted(under_way.members),
            reason=under_way.reason,
            forced=under_way.forced,
            unrecorded=under_way.desired is None and bool(shared.peer),
            history_id=b"" if known else new_history_id(shared.instance, shared.name, under_way.epoch),
            # Whoever knew what else was in these units is no master any more, or begins anew (U10).
            unit_leases=machine.unit_leases() if machine is not None else (),
        ),
    )

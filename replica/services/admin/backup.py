"""ManagerAdminService.Backup: sends what this member has on disk to a client, at the client's pace, within limits.

The store is read as it was at one moment, and keeps the room of all that goes meanwhile. So one backup at a time, given
up when its client stops taking it, and before it costs more than a share of what is free.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from failover.marks import DataMark, Role
from replica.core.state.outcomes import Failed
from replica.node.members import LOCAL, MAIN
from replica.offline.backup import head_of, pieces
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, parse
from replica.services.answers import header_of, product_version
from storage.backup import VERSION, Packer
from storage.errors import CorruptRecord, StorageError
from tandemq.ambient import wall_ms
from tandemq.v1 import manager_admin_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.node.members import Members
    from storage.backup import BackupHead
    from storage.store import Store

CHUNK_BYTES = 1 << 20
STALL_S = 30.0
"""A client that takes no chunk for so long gets no more."""
PINNED_SHARE = 4
"""The file may grow by one part in so many of what was free when the backup began: what goes meanwhile stays."""
AGAIN_MS = 5_000


class BackupHandlers:
    """The handler of one method."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.stall_s = STALL_S
        self.pinned_share = PINNED_SHARE
        self.running = ""
        """Whose backup is under way."""

    def methods(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Its part of ManagerAdminService; requests and replies are bytes."""
        return {"Backup": grpc.unary_stream_rpc_method_handler(self.backup)}

    async def backup(self, request: bytes, context: Context) -> None:
        """See ManagerAdminService.Backup."""
        asked = await parse(pb.BackupRequest, request, context)
        if self.running:
            text = f"a backup of {self.members.member} is on its way to {self.running}; one at a time, repeat it later"
            await abort(context, Failed(Reason.REASON_QUOTA_EXCEEDED, text, {}, AGAIN_MS))
        if (problem := self._problem(any_copy=asked.any_copy)) is not None:
            await abort(context, problem)
        self.running = str(context.peer())
        try:
            problem = await self._send(context)
        except CorruptRecord as error:
            problem = refusal(Reason.REASON_CORRUPT_STORE, str(error))
        except StorageError as error:
            problem = refusal(Reason.REASON_INTERNAL, str(error))
        finally:
            self.running = ""
        if problem is not None:
            # Last: a client that takes nothing does not take this either, and nothing may be held up by it.
            await abort(context, problem)

    def _problem(self, *, any_copy: bool) -> Failed | None:
        """Why a backup of this member would not be what somebody expects of one."""
        for domain in self.members.by_name.values():
            shared, where = domain.shared, f"domain {domain.shared.name} of {self.members.member}"
            if shared.state.data is DataMark.SYNCING or shared.machine is None:
                text = f"{where} is half filled by a state transfer; take the backup at {shared.peer}, or later"
                return Failed(Reason.REASON_SYNCING, text, {"peer": self.members.peer_endpoint}, AGAIN_MS)
            if shared.state.data is DataMark.DAMAGED:
                return refusal(Reason.REASON_CORRUPT_STORE, f"{where} is damaged; take the backup at {shared.peer}")
            if not any_copy and shared.peer and not _is_current(domain):
                text = (
                    f"{where} may lack what was acknowledged since ({shared.state.data.name}: {shared.last_change}); "
                    f"take the backup at {shared.peer}, or ask for any copy"
                )
                return refusal(Reason.REASON_INVALID_STATE, text, {"peer": self.members.peer_endpoint})
        return None

    async def _send(self, context: Context) -> Failed | None:
        """All of it; why it was given up, if it was."""
        store, members = self.members.node.store, self.members
        usage = store.usage()
        limit = usage.file_bytes + (usage.map_bytes - usage.file_bytes) // self.pinned_share
        view = await asyncio.to_thread(store.view)
        try:
            current = all(map(_is_current, members.by_name.values()))
            head = await asyncio.to_thread(
                head_of,
                view,
                pair=members.pair,
                member=members.member,
                peer=members.peer,
                product=product_version(),
                time_ms=wall_ms(),
                size=usage.used_bytes,
                whole=current,
            )
            if problem := await self._write(context, pb.BackupResponse(header=self._header(head))):
                return problem
            packer = Packer()
            source = pieces(view, head, packer)
            while piece := await asyncio.to_thread(next, source, b""):
                for at in range(0, len(piece), CHUNK_BYTES):
                    frame = pb.BackupResponse(chunk=piece[at : at + CHUNK_BYTES])
                    if problem := await self._write(context, frame) or _grown(store, limit):
                        return problem
            foot = pb.BackupFooter(bytes=packer.bytes, blake2b=packer.digest(), records=packer.count)
            return await self._write(context, pb.BackupResponse(footer=foot))
        finally:
            # In a thread, as it waits for one that still reads: this call may have been cancelled meanwhile.
            await asyncio.to_thread(view.close)

    async def _write(self, context: Context, frame: pb.BackupResponse) -> Failed | None:
        try:
            async with asyncio.timeout(self.stall_s):
                await context.write(frame.SerializeToString())
        except TimeoutError:
            text = f"the client took nothing for {self.stall_s:g} s; write the backup to a faster place, and repeat it"
            return refusal(Reason.REASON_QUOTA_EXCEEDED, text)
        return None

    def _header(self, head: BackupHead) -> pb.BackupHeader:
        members = self.members
        header = pb.BackupHeader(
            header=header_of(members, members.by_name[MAIN]),
            format_version=VERSION,
            version=head.product,
            pair=head.pair,
            member=head.member,
            peer=head.peer,
            instance_id=head.instance.hex(),
            incarnation=head.incarnation,
            whole=head.whole,
            records=head.records,
            bytes_estimate=head.bytes_estimate,
            domains=[
                pb.BackupDomain(
                    name=domain.name,
                    epoch=domain.epoch,
                    log_index=domain.log_index,
                    digest=domain.digest.hex(),
                    data_state=DataMark[domain.data].value,  # type: ignore[arg-type]  # the enums share their numbers
                    records=domain.records,
                )
                for domain in head.domains
            ],
        )
        header.taken_at.FromMilliseconds(head.time_ms)
        return header


def _is_current(domain: Domain) -> bool:
    """Whether everything that anybody got an answer about is on this member's disk."""
    if domain.shared.name == LOCAL or domain.shared.serving:
        return True
    shared, target = domain.shared, domain.target
    if shared.role is not Role.REPLICA or not shared.state.data.is_good:
        return False
    # By its log an older copy of the directory counts too, before it has taken what it lacks.
    return target.opened or (target.counts and domain.mastership.claims.may_claim)


def _grown(store: Store, limit: int) -> Failed | None:
    if (grown := store.usage().file_bytes) <= limit:
        return None
    text = (
        f"the store has grown to {grown} bytes while the backup was read, and {limit} is the most it may for that; "
        "write the backup to a faster place, or take it at a quieter time"
    )
    return Failed(Reason.REASON_STORAGE_FULL, text, {"limit": str(limit)}, AGAIN_MS)

"""PairService.Resolve, Resync, Outdate, Verify, ListSalvage, ReadSalvage: an operator's word on a copy and its records.
Judges nothing: `CopyOrders` and `Mastership` do.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import TYPE_CHECKING

import grpc

from failover.marks import Role
from replica.node.members import MAIN
from replica.peer.verify import RANGE_RECORDS, RANGE_RECORDS_MAX, CannotVerify
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, parse
from replica.services.pair.operators_word import problem_of_word
from replica.services.pair.salvage_view import SalvageView
from storage.errors import CorruptRecord
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.domain import Domain
    from replica.node.members import Members
    from replica.node.salvage import SalvageFiles, SalvageInfo
    from replica.peer.verify import Verifier
    from replica.rpc.handlers import Method

log = logging.getLogger("tandemq.operator")

STEP_DOWN_S = 2.0
LOOK_S, LOOKS, LOOKS_A_CALL = 0.02, 200, 50
"""Between two looks whether the master goes on without a replica that asks for it; how many, and after how many the
replica asks again.
"""
READ_RECORDS = 64
"""Read from a salvage file in one turn of a thread."""


class DivergenceHandlers:
    """`reconnect` ends the connection to the peer: a transfer begins from a new HELLO."""

    def __init__(
        self, members: Members, salvage: SalvageFiles, verifier: Verifier, reconnect: Callable[[str], None]
    ) -> None:
        self.members = members
        self.salvage = salvage
        self.verifier = verifier
        self.reconnect = reconnect

    def methods(self) -> dict[str, Method]:
        """For `service_failures.pair_handler`."""
        unary = grpc.unary_unary_rpc_method_handler
        return {
            "Resolve": unary(self.resolve),
            "Resync": unary(self.resync),
            "Outdate": unary(self.outdate),
            "Verify": grpc.unary_stream_rpc_method_handler(self.verify),
            "ListSalvage": unary(self.list_salvage),
            "ReadSalvage": grpc.unary_stream_rpc_method_handler(self.read_salvage),
        }

    async def _domain(self, name: str, context: Context) -> Domain:
        domain = self.members.by_name.get(name or MAIN)
        if domain is None or not domain.shared.peer:
            pairs = sorted(name for name, each in self.members.by_name.items() if each.shared.peer)
            known = f"there are {', '.join(pairs)}" if pairs else "this member has no peer"
            text = f"no domain of a pair is called {(name or MAIN)[:80]!r} here; {known}"
            await abort(context, refusal(Reason.REASON_BAD_NAME, text))
        return domain

    async def _done(self, domain: Domain) -> None:
        """Carry out what the core asked for, and wait until it is on disk."""
        self.members.node.dispatch(domain)
        await self.members.node.flush()

    # -- the other history -----------------------------------------------------------------------------------------

    async def resolve(self, request: bytes, context: Context) -> bytes:
        """See PairService.Resolve."""
        asked = await parse(pb.ResolveRequest, request, context)
        domain = await self._domain(asked.domain, context)
        shared = domain.shared
        if asked.keep not in (shared.member, shared.peer):
            text = f"keep is {asked.keep[:80]!r}; it must be {shared.member!r} or {shared.peer!r}"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        if not asked.reason.strip():
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, "reason is empty; it is kept with the event"))
        log.warning("domain %s: resolve, keep %s: %s", shared.name, asked.keep, asked.reason, extra=shared.tags)
        if asked.keep == shared.member:
            return (await self._keep_own(domain, asked.reason, context)).SerializeToString()
        last = shared.log.last_index
        why_not = domain.mastership.copy_orders.give_up_history(asked.reason)
        if why_not:
            await abort(context, refusal(Reason.REASON_INVALID_STATE, why_not))
        await self._done(domain)
        infos = await asyncio.get_running_loop().run_in_executor(None, self.salvage.infos)
        names = [info.name for info in infos if (info.head.number, info.head.last) == (shared.domain, last)]
        text = f"{shared.member} yields to {shared.peer}, and takes its state when it serves"
        return pb.ResolveResponse(done=True, text=text, salvage=names[-1] if names else "").SerializeToString()

    async def _keep_own(self, domain: Domain, reason: str, context: Context) -> pb.ResolveResponse:
        shared = domain.shared
        if domain.shared.serving:
            return pb.ResolveResponse(done=True, text=f"{shared.member} serves; now resolve at {shared.peer}")
        if shared.role is not Role.DIVERGED:
            text = f"{shared.member} is {shared.role.name} in {shared.name}: there is nothing to resolve"
            await abort(context, refusal(Reason.REASON_INVALID_STATE, text))
        if domain.mastership.peer.hello is None:
            # An operator who means it says so with the loss that it costs: a peer out of sight may be serving.
            text = f"{shared.peer} is not connected: connect it, or use `tandemq pair failover --force`"
            await abort(context, refusal(Reason.REASON_INVALID_STATE, text))
        if why_not := problem_of_word(self.members, domain):
            await abort(context, refusal(Reason.REASON_INVALID_STATE, why_not))
        await self._peer_steps_down(domain)
        why_not = domain.mastership.force(f"two histories, this one is kept: {reason}")
        if why_not:
            text = f"{why_not}; resolve at {shared.peer} first, with the same keep"
            await abort(context, refusal(Reason.REASON_INVALID_STATE, text))
        await self._done(domain)
        text = f"{shared.member} takes the mastership by force; see `tandemq pair status`"
        return pb.ResolveResponse(done=True, text=text)

    async def _peer_steps_down(self, domain: Domain) -> None:
        """It may just have given way: its HELLO is on its way then."""
        deadline = asyncio.get_running_loop().time() + STEP_DOWN_S
        while asyncio.get_running_loop().time() < deadline:
            hello = domain.mastership.peer.hello
            if hello is None or hello.role not in (Role.MASTER.value, Role.MASTER_SUSPENDED.value):
                return
            await asyncio.sleep(0.02)

    async def resync(self, request: bytes, context: Context) -> bytes:
        """See PairService.Resync."""
        asked = await parse(pb.ResyncRequest, request, context)
        domain = await self._domain(asked.domain, context)
        shared = domain.shared
        if asked.full and domain.mastership.copy_orders.takes_everything():
            text = f"{shared.member} takes everything from {shared.peer} already; what is under way goes on"
            return pb.ResyncResponse(done=True, text=text).SerializeToString()
        why_not = domain.mastership.copy_orders.resync(asked.reason or "no reason given", full=asked.full)
        if why_not:
            await abort(context, refusal(Reason.REASON_INVALID_STATE, why_not))
        stays, fills = shared.role is Role.REPLICA, domain.target.fills  # its master may answer during the next line
        await self._done(domain)
        if stays:
            if why_not := await self._left_out(domain, fills):
                await abort(context, refusal(Reason.REASON_INVALID_STATE, why_not))
            text = f"{shared.peer} goes on alone, and {shared.member} takes everything from it; nobody waits for that"
            return pb.ResyncResponse(done=True, text=text).SerializeToString()
        connected = domain.mastership.peer.connected
        self.reconnect("an operator asked for a new transfer")
        text = f"{shared.member} takes the state of {shared.peer} anew"
        text += "" if connected else "; it begins when they are connected"
        return pb.ResyncResponse(done=True, text=text).SerializeToString()

    async def _left_out(self, domain: Domain, fills: int) -> str:
        """Wait until the master goes on without this member, which has asked it to; why it does not.

        Asked again now and then: it may be handing over, or adding a member, just then.
        """
        shared = domain.shared
        for look in range(1, LOOKS + 1):
            await asyncio.sleep(LOOK_S)
            # A small transfer has started and ended between two looks.
            if domain.target.fills > fills or (shared.role is Role.PROBE and shared.wants_full):
                return ""
            if shared.role is not Role.REPLICA or not shared.wants_full:
                return f"{shared.member} is {shared.role.name} meanwhile: {shared.last_change}"
            if look % LOOKS_A_CALL == 0:
                domain.say_hello()
                self.members.node.dispatch(domain)
        domain.mastership.copy_orders.forget_resync()
        self.members.node.dispatch(domain)
        return (
            f"{shared.peer} has not gone on alone within {LOOKS * LOOK_S:g} s, and everybody would wait for the "
            f"transfer: {shared.member} stays in step. Can {shared.peer} reach the authority, and is it as new as "
            f"{shared.member}?"
        )

    async def outdate(self, request: bytes, context: Context) -> bytes:
        """See PairService.Outdate. A refusal is an answer: the caller needs to know role, epoch and log index."""
        asked = await parse(pb.OutdateRequest, request, context)
        if asked.by_member and asked.pair != self.members.pair:
            # A second path that leads to a namesake: its "done" would be believed to be ours.
            own, other = self.members.pair, asked.pair[:80]
            text = (
                f"{self.members.member} belongs to pair {own!r}, the caller to {other!r}: check outdate_endpoint there"
            )
            return pb.OutdateResponse(text=text).SerializeToString()
        if asked.domain:
            domains = [await self._domain(asked.domain, context)]
        else:
            domains = self.members.node.paired() or [await self._domain("", context)]
        first = domains[0].shared
        answer = pb.OutdateResponse(
            role=first.role.value,  # type: ignore[arg-type]  # the enums share their numbers
            last_index=first.log.last_index,
            epoch=first.state.epoch,
        )
        refused = []
        for domain in domains:
            reason = asked.reason or "no reason given"
            why_not = domain.mastership.copy_orders.outdate(reason, by_member=asked.by_member[:80], epoch=asked.epoch)
            log.warning(
                "domain %s: outdate by %r: %s",
                domain.shared.name,
                asked.by_member[:80],
                why_not or "done",
                extra=domain.shared.tags,
            )
            if why_not:
                refused.append(why_not)
            self.members.node.dispatch(domain)
        await self.members.node.flush()
        if len(refused) < len(domains):
            self.reconnect("this copy was outdated")
        answer.done = not refused
        answer.text = "; ".join(refused) or f"{self.members.member} is outdated until its next transfer"
        return answer.SerializeToString()

    # -- equal? ----------------------------------------------------------------------------------------------------

    async def verify(self, request: bytes, context: Context) -> None:
        """See PairService.Verify."""
        asked = await parse(pb.VerifyRequest, request, context)
        domain = await self._domain(asked.domain, context)
        if asked.range_records > RANGE_RECORDS_MAX:
            text = f"range_records is {asked.range_records}, at most {RANGE_RECORDS_MAX}"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        try:
            async for answer in self.verifier.compare(domain, asked.range_records or RANGE_RECORDS):
                await context.write(answer.SerializeToString())
        except CannotVerify as why_not:
            await abort(context, refusal(Reason.REASON_INVALID_STATE, str(why_not)))

    # -- salvage ---------------------------------------------------------------------------------------------------

    async def list_salvage(self, request: bytes, context: Context) -> bytes:
        """See PairService.ListSalvage."""
        await parse(pb.ListSalvageRequest, request, context)
        loop = asyncio.get_running_loop()
        infos = await loop.run_in_executor(None, self.salvage.infos)
        files = [_file(info) for info in infos]
        why = "cannot be read; the log of this member says where it is damaged"
        files += [
            pb.SalvageFile(name=name, reason=why) for name in await loop.run_in_executor(None, self.salvage.unreadable)
        ]
        return pb.ListSalvageResponse(files=files).SerializeToString()

    async def read_salvage(self, request: bytes, context: Context) -> None:
        """See PairService.ReadSalvage."""
        asked = await parse(pb.ReadSalvageRequest, request, context)
        loop = asyncio.get_running_loop()
        info = await loop.run_in_executor(None, self.salvage.info, asked.name)
        if info is None:
            text = f"no salvage file is called {asked.name[:200]!r} at {self.members.member}; see ListSalvage"
            await abort(context, refusal(Reason.REASON_BAD_NAME, text))
        try:
            view = await loop.run_in_executor(None, SalvageView.of, self.salvage, info)
            operations = view.operations()
            while batch := await loop.run_in_executor(None, list, islice(operations, READ_RECORDS)):
                for operation in batch:
                    await context.write(operation.SerializeToString())
        except (CorruptRecord, OSError) as error:
            text = f"{info.name} cannot be read to its end: {error}; what came before is good"
            await abort(context, refusal(Reason.REASON_CORRUPT_STORE, text))


def _file(info: SalvageInfo) -> pb.SalvageFile:
    head, foot = info.head, info.foot
    file = pb.SalvageFile(
        name=info.name,
        domain=head.domain,
        first_index=head.first,
        last_index=head.last,
        operations=foot.operations,
        acknowledged=foot.acknowledged,
        perhaps_acknowledged=foot.perhaps,
        unacknowledged=foot.unacknowledged,
        bytes=info.bytes,
        reason=head.why,
    )
    file.time.FromMilliseconds(head.time_ms)
    return file

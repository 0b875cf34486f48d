"""Serves the witness's registers over gRPC; it decides nothing about them and never answers before the store has.

A refusal is an answer, not an error. Errors carry google.rpc.ErrorInfo (domain "tandemq"), whose reason is a name of
tandemq.v1.Reason without its prefix; to a member every one of them means "unknown" (P1).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # ships no types

from failover.callers import Callers
from failover.register import Register, check_form
from failover.wire import SERVER_OPTIONS, BadRegisterError, from_message, to_message
from failover.witness_store import QuotaExceededError, StoreBrokenError, StoreFullError, WitnessStore
from tandemq import refusing
from tandemq.credentials.caller import caller_of, principal_of
from tandemq.edge.descriptors import own_limit, shares
from tandemq.edge.guard import FloodGuard
from tandemq.edge.options import bounded
from tandemq.edge.reflection import Reflection
from tandemq.v1 import common_pb2
from tandemq.witness.v1 import witness_service_pb2 as pb
from tandemq.witness.v1 import witness_service_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from tandemq.credentials.files import Credentials

SERVICE_NAME = pb.DESCRIPTOR.services_by_name["WitnessService"].full_name
PAIR_BYTES_MAX, DOMAIN_BYTES_MAX, MEMBER_BYTES_MAX = 64, 255, 64  # with version below LMDB's 511 bytes for a key
WATCH_COUNT_MAX = 20_000
REASON_BYTES_MAX = 1_000
_NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*", re.ASCII)

_Context: TypeAlias = grpc.aio.ServicerContext[object, object]
_Write: TypeAlias = pb.CompareAndSetRequest | pb.ForceRegisterRequest
_Work: TypeAlias = Callable[[], tuple[Register, str | None]]

log = logging.getLogger("tandemq.witness")


class WitnessServer:
    """A witness on one address and one directory. Start once, stop once; `failed` is set when it must not go on."""

    def __init__(
        self,
        listen: str,
        data_dir: Path,
        *,
        credentials: Credentials | None = None,
        operators: Collection[str] = (),
        grace_s: float = 1.0,
    ) -> None:
        """credentials: None: whoever reaches the port is believed. operators: clients who may put a register right."""
        self.listen, self.data_dir, self.grace_s = listen, data_dir, grace_s
        self._operators = operators
        self.port = 0  # bound port, from start() on
        self.failed = asyncio.Event()
        self._credentials = credentials
        self._store: WitnessStore | None = None
        self._servicer: _Servicer | None = None
        self._server: grpc.aio.Server | None = None
        self._health: health.aio.HealthServicer | None = None
        self._guard: FloodGuard | None = None

    async def start(self) -> int:
        """Opens the store, binds, serves; the bound port. Raises DirectoryInUseError, StoreDamagedError or OSError."""
        assert self._server is None, "a server starts once"
        with ExitStack() as opened:
            self._store = WitnessStore(self.data_dir)
            opened.callback(self._store.close)
            callers = Callers(self._operators) if self._credentials is not None else None
            self._servicer = _Servicer(self._store, self.failed, callers)
            server = grpc.aio.server(options=[*SERVER_OPTIONS, bounded(shares(own_limit()).clients)])
            pb_grpc.add_WitnessServiceServicer_to_server(self._servicer, server)
            self._health = health.aio.HealthServicer()
            health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
            health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
            server.add_generic_rpc_handlers([Reflection((SERVICE_NAME, health_name))])
            self.port = self._bind(server)
            await server.start()
            self._server = server
            self._guard = FloodGuard([self.port])
            self._guard.start()
            opened.pop_all()  # stop() closes the store
        for name in ("", SERVICE_NAME):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return self.port

    async def stop(self) -> None:
        """Ends watches, lets calls under way finish within the grace, frees port and directory."""
        if self._server is None or self._servicer is None or self._store is None or self._health is None:
            return
        if self._guard is not None:
            self._guard.stop()
        await self._health.enter_graceful_shutdown()
        self._servicer.end_watches()
        await self._server.stop(self.grace_s)
        await self._servicer.close()
        self._store.close()
        self._server = None

    def _bind(self, server: grpc.aio.Server) -> int:
        try:
            if self._credentials is None:
                return server.add_insecure_port(self.listen)
            from tandemq.credentials.channels import port_credentials

            return server.add_secure_port(self.listen, port_credentials(self._credentials))
        except RuntimeError as error:  # what grpc raises for every failure to bind
            raise OSError(f"cannot listen on {self.listen}: {error}") from error


async def serve_witness(listen: str, data_dir: Path, *, ready: Callable[[int], None] | None = None) -> None:
    """Serves until cancelled, then stops in order; `ready` gets the bound port.

    Raises what WitnessServer.start raises, and RuntimeError when the disk fails: then nothing more may be answered.
    """
    server = WitnessServer(listen, data_dir)
    port = await server.start()
    try:
        if ready is not None:
            ready(port)
        await server.failed.wait()
        raise RuntimeError(f"the disk under {data_dir} failed; what it holds is known only after a restart")
    finally:
        await server.stop()


class _Servicer(pb_grpc.WitnessServiceServicer):
    def __init__(self, store: WitnessStore, failed: asyncio.Event, callers: Callers | None = None) -> None:
        self._store, self._failed, self._callers = store, failed, callers
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="witness-writer")
        self._watches: dict[tuple[str, str], set[asyncio.Event]] = {}
        self._watch_count = 0
        self._ending = False

    async def GetRegister(  # noqa: N802 (the contract's name)
        self, request: pb.GetRegisterRequest, context: _Context
    ) -> pb.GetRegisterResponse:
        await self._check_serving(context)
        await _check_names(context, pair=request.pair, domain=request.domain)
        return pb.GetRegisterResponse(register=to_message(self._store.get(request.pair, request.domain)))

    async def ListRegisters(  # noqa: N802 (the contract's name)
        self,
        request: pb.ListRegistersRequest,
        context: _Context,
    ) -> pb.ListRegistersResponse:
        await self._check_serving(context)
        if request.pair:
            await _check_names(context, pair=request.pair)
        registers = [
            pb.NamedRegister(pair=pair, domain=domain, register=to_message(register))
            for pair, domain, register in self._store.registers(request.pair)
        ]
        return pb.ListRegistersResponse(
            registers=registers, register_count_max=self._store.register_count_max, version=_version()
        )

    async def ForceRegister(  # noqa: N802 (the contract's name)
        self,
        request: pb.ForceRegisterRequest,
        context: _Context,
    ) -> pb.ForceRegisterResponse:
        await self._check_serving(context)
        await _check_names(context, pair=request.pair, domain=request.domain, member=request.holder)
        if self._callers is not None:
            await _permit(context, self._callers.problem_of_force(principal_of(context), request.pair))
        if len(request.reason.encode()) > REASON_BYTES_MAX:
            text = f"reason has {len(request.reason.encode())} bytes, at most {REASON_BYTES_MAX}"
            await _abort(context, common_pb2.REASON_BAD_REQUEST, text)
        nonce = os.urandom(16)
        register, why_not = await self._write(context, request, lambda: self._store.force(request, nonce))
        outcome = f"refused: {why_not}" if why_not else f"version {register.version}, epoch {register.epoch}"
        log.warning(
            "an operator's word from %s: %s/%s to %s: %s; reason: %s",
            *(caller_of(context), request.pair, request.domain, request.holder, outcome, request.reason),
            extra={"pair": request.pair, "domain": request.domain, "epoch": register.epoch},
        )
        return pb.ForceRegisterResponse(done=why_not is None, register=to_message(register), refusal=why_not or "")

    async def CompareAndSet(  # noqa: N802 (the contract's name)
        self, request: pb.CompareAndSetRequest, context: _Context
    ) -> pb.CompareAndSetResponse:
        await self._check_serving(context)
        await _check_names(context, pair=request.pair, domain=request.domain, member=request.member)
        if self._callers is not None:
            who = principal_of(context)
            await _permit(context, self._callers.problem_of_set(who, request.pair, request.member, request.domain))
        await _check_registers(context, request)
        if request.desired.holder != request.member:
            # Every kind of set is made by its holder; a mix-up of configurations must not change mastership.
            current = self._store.get(request.pair, request.domain)
            why = f"{request.member!r} asks for a register held by {request.desired.holder!r}"
            return pb.CompareAndSetResponse(done=False, register=to_message(current), refusal=why)
        register, why_not = await self._write(context, request, lambda: self._store.compare_and_set(request))
        return pb.CompareAndSetResponse(done=why_not is None, register=to_message(register), refusal=why_not or "")

    async def _write(self, context: _Context, request: _Write, work: _Work) -> tuple[Register, str | None]:
        loop = asyncio.get_running_loop()
        try:
            # A set that is under way goes on when its caller gives up: to the caller it is unknown, and may land (P1).
            return await loop.run_in_executor(self._writer, self._set, request, work, loop)
        except QuotaExceededError as error:
            await _abort(context, common_pb2.REASON_QUOTA_EXCEEDED, str(error))
        except StoreFullError as error:
            await _abort(context, common_pb2.REASON_STORAGE_FULL, str(error))
        except StoreBrokenError as error:
            await _abort(context, common_pb2.REASON_CORRUPT_STORE, str(error))

    async def WatchRegister(  # noqa: N802 (the contract's name)
        self, request: pb.WatchRegisterRequest, context: _Context
    ) -> AsyncIterator[pb.WatchRegisterResponse]:
        await self._check_serving(context)
        await _check_names(context, pair=request.pair, domain=request.domain)
        if self._watch_count >= WATCH_COUNT_MAX:
            text = f"{WATCH_COUNT_MAX} watches are open"
            await _abort(context, common_pb2.REASON_QUOTA_EXCEEDED, text)
        changed, key = asyncio.Event(), (request.pair, request.domain)
        self._watches.setdefault(key, set()).add(changed)
        self._watch_count += 1
        try:
            seen = None
            while not self._ending:
                changed.clear()
                # Only the newest is sent: a slow reader skips, it never makes the witness remember.
                if (current := self._store.get(*key)) != seen:
                    seen = current
                    yield pb.WatchRegisterResponse(register=to_message(current))
                else:
                    await changed.wait()
        finally:
            self._watch_count -= 1
            self._watches[key].discard(changed)
            if not self._watches[key]:
                del self._watches[key]

    def end_watches(self) -> None:
        self._ending = True
        for key in list(self._watches):
            self._wake(*key)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._writer.shutdown)

    def _set(self, request: _Write, work: _Work, loop: asyncio.AbstractEventLoop) -> tuple[Register, str | None]:
        """On the writer's thread, where it runs to its end even if nobody waits for the answer any more."""
        try:
            return work()
        except StoreBrokenError:
            loop.call_soon_threadsafe(self._failed.set)
            raise
        finally:
            loop.call_soon_threadsafe(self._wake, request.pair, request.domain)

    def _wake(self, pair: str, domain: str) -> None:
        for changed in self._watches.get((pair, domain), ()):
            changed.set()

    async def _check_serving(self, context: _Context) -> None:
        if self._failed.is_set():
            await _abort(context, common_pb2.REASON_CORRUPT_STORE, "the witness's disk failed")


async def _permit(context: _Context, problem: str) -> None:
    if problem:
        log.warning("refused: %s", problem)
        await refusing.abort_bare(context, grpc.StatusCode.PERMISSION_DENIED, problem)


async def _check_names(context: _Context, *, pair: str, domain: str | None = None, member: str | None = None) -> None:
    limits = [("pair", pair, PAIR_BYTES_MAX)]
    if domain is not None:
        limits.append(("domain", domain, DOMAIN_BYTES_MAX))
    if member is not None:
        limits.append(("member", member, MEMBER_BYTES_MAX))
    for what, name, bytes_max in limits:
        if (why := _name_fault(what, name, bytes_max)) is not None:
            await _abort(context, common_pb2.REASON_BAD_NAME, why)


async def _check_registers(context: _Context, request: pb.CompareAndSetRequest) -> None:
    for what, message in (("expected", request.expected), ("desired", request.desired)):
        try:
            register = from_message(message)
            why = check_form(register)
            if why is None and what == "desired" and register.is_new:
                why = "version 0 cannot be set"
            for name in sorted({register.holder} | register.in_sync_set | register.committed_set):
                if why is None and not register.is_new:
                    why = _name_fault("member", name, MEMBER_BYTES_MAX)
        except BadRegisterError as error:
            why = str(error)
        if why is not None:
            await _abort(context, common_pb2.REASON_BAD_REQUEST, f"{what}: {why}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # cold path, slow import

    try:
        return version("tandemq")
    except PackageNotFoundError:
        return "unknown"


def _name_fault(what: str, name: str, bytes_max: int) -> str | None:
    if not _NAME.fullmatch(name):
        return f"{what} {name[:80]!r} is not a name: letters, digits and ._- in segments joined by /"
    if len(name) > bytes_max:  # ASCII by now
        return f"{what} has {len(name)} bytes, at most {bytes_max}"
    return None


async def _abort(context: _Context, reason: common_pb2.Reason, text: str) -> NoReturn:
    await refusing.abort(context, common_pb2.Error(reason=reason, message=text))

"""Keeps the register in etcd: asks one of its endpoints and reports what is known of the answer; it never decides.

The same three outcomes as with a witness (P1): only etcd's answer to the transaction is a fact; a timeout or any error
is unknown, and the set may land later. There is no server of ours in between, so the rules that a witness enforces
(`check_set`, and that a register is set by its holder) are asked here, and the transaction then compares the exact
value that they were asked about. Reads go to the next endpoint when one fails; a set is one attempt at one endpoint.

Needs etcd 3.4.21, 3.5.5 or newer: older ones answer before the disk has when they run alone (etcd-io/etcd#14370).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import Message

from failover.authority import (
    WATCH_RETRY_S,
    WATCH_RETRY_S_MAX,
    CasDone,
    CasOutcome,
    CasRefused,
    CasUnknown,
    Unreachable,
)
from failover.etcd_wire import from_value, key_of, to_value
from failover.register import Register, check_force, check_form, check_set, forced
from failover.wire import CLIENT_CHANGES, BadRegisterError
from tandemq.channels import Kept, Open, lasting, open_channel
from tandemq.etcd.v1 import etcd_pb2 as pb

log = logging.getLogger("tandemq.etcd")

# etcd ends connections that ping more often than every 5 s, or without a call.
OPTIONS = lasting(
    {
        **CLIENT_CHANGES,
        "grpc.keepalive_time_ms": 6_000,
        "grpc.keepalive_timeout_ms": 2_000,
        "grpc.http2.ping_timeout_ms": 2_000,
        "grpc.keepalive_permit_without_calls": 0,
    }
)
# A member of a cluster that has lost its leader then refuses, instead of letting a watch wait without a word.
METADATA = (("hasleader", "true"),)

_Watch: TypeAlias = "grpc.aio.StreamStreamCall[Message, pb.WatchResponse | None]"


@dataclass(frozen=True, slots=True)
class _Read:
    """What a linearizable read found, and the revision of the whole store at that moment."""

    register: Register
    revision: int


class EtcdAuthority:
    """One key for each domain of one pair. One channel for each of at least one endpoint; opened on the first call."""

    def __init__(
        self,
        endpoints: Sequence[str],
        prefix: str,
        pair: str,
        member: str,
        timeout_s: float = 1.0,
        opener: Open = open_channel,
    ) -> None:
        self.endpoints, self.prefix = tuple(dict.fromkeys(endpoints)), prefix
        self.pair, self.member, self.timeout_s = pair, member, timeout_s
        self._channels = {endpoint: Kept(endpoint, OPTIONS, opener) for endpoint in self.endpoints}
        self._first = self.endpoints[0]  # answered last, or comes after one that failed
        self._connected = False

    @property
    def connected(self) -> bool:
        """See Authority."""
        return self._connected

    async def get(self, domain: str) -> Register | Unreachable:
        """See Authority. Linearizable: never older than what any set was answered with."""
        found = await self._read(domain)
        return found.register if isinstance(found, _Read) else found

    async def compare_and_set(self, domain: str, expected: Register, desired: Register) -> CasOutcome:
        """See Authority."""
        why = check_form(expected) or check_form(desired)
        if why is not None or desired.is_new:
            return CasUnknown(why or "version 0 cannot be set")
        if desired.holder != self.member:
            # Every kind of set is made by its holder; a mix-up of configurations must not change mastership.
            why = f"{self.member!r} asks for a register held by {desired.holder!r}"
            return await self._refused(domain, why)
        if (why := check_set(expected, expected, desired)) is not None:
            found = await self._read(domain)
            if isinstance(found, _Read) and found.register == desired:
                return CasDone(desired)  # a repetition of the set that is in force
            return CasUnknown(found.why) if isinstance(found, Unreachable) else CasRefused(found.register, why)
        return await self._set(domain, expected, desired)

    async def force(self, domain: str, expected_version: int, epoch: int, holder: str, reason: str) -> CasOutcome:
        """See Authority. etcd keeps no journal: the reason goes to this process's log."""
        found = await self._read(domain)
        if isinstance(found, Unreachable):
            return CasUnknown(found.why)
        current = found.register
        started = frozenset({self.member})  # a member forces itself; a list of all would be a second read
        if (why := check_force(current, expected_version, epoch, holder, reason, started)) is not None:
            return CasRefused(current, why)
        desired = forced(current, epoch=epoch, holder=holder, nonce=os.urandom(16))
        text, tags = "pair %s, domain %s: forcing epoch %d for %s: %s", {"domain": domain, "epoch": epoch}
        log.warning(text, self.pair, domain, epoch, holder, reason, extra=tags)
        return await self._set(domain, current, desired)

    async def watch(self, domain: str) -> AsyncIterator[Register]:
        """See Authority."""
        delay_s = WATCH_RETRY_S
        while True:
            found = await self._read(domain)
            if isinstance(found, _Read):
                delay_s = WATCH_RETRY_S
                yield found.register
                call = self._watch_call()
                try:
                    # From the next revision on: nothing between the read and the watch is missed or comes twice.
                    begin = pb.WatchCreateRequest(key=self._key(domain), start_revision=found.revision + 1)
                    await call.write(pb.WatchRequest(create_request=begin))
                    async for reply in call:
                        # Nobody can read it; or it was compacted, or is etcd's own wish: read again.
                        if reply is None or reply.canceled:
                            break
                        if reply.events:
                            self._connected = True
                            yield self._register_of(domain, reply.events[-1])
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError, BadRegisterError):
                    pass  # an outage is visible in `connected`; what it means is for the caller's own reads to find out
                finally:
                    call.cancel()
                self._connected = False
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, WATCH_RETRY_S_MAX)

    async def close(self) -> None:
        """See Authority."""
        for channel in self._channels.values():
            await channel.close()
        self._channels, self._connected = {}, False

    async def _read(self, domain: str) -> _Read | Unreachable:
        """Each endpoint once, beginning with the one that answered last, all within the timeout."""
        request = pb.RangeRequest(key=self._key(domain))
        end_s = asyncio.get_running_loop().time() + self.timeout_s
        failures = []
        for tried, endpoint in enumerate(self._in_order()):
            left_s = end_s - asyncio.get_running_loop().time()
            try:
                reply = await self._range(endpoint, request, max(left_s / (len(self.endpoints) - tried), 0.001))
                if reply is None:
                    failures.append(self._unreadable(endpoint))
                    continue
                register = self._found(domain, reply.kvs)
            except grpc.aio.AioRpcError as error:
                failures.append(self._failed(endpoint, error))
                continue
            except BadRegisterError as error:
                return Unreachable(str(error))  # the same at every endpoint
            self._first, self._connected = endpoint, True
            return _Read(register, reply.header.revision)
        return Unreachable("; ".join(failures))

    async def _set(self, domain: str, expected: Register, desired: Register) -> CasOutcome:
        """`desired` may follow `expected`. One transaction at one endpoint; what it answers is all that is known."""
        key = self._key(domain)
        if expected.is_new:
            condition = pb.Compare(key=key, target=pb.COMPARE_TARGET_CREATE_REVISION, create_revision=0)
        else:
            value = to_value(expected, self.pair, domain)
            condition = pb.Compare(key=key, target=pb.COMPARE_TARGET_VALUE, value=value)
        put = pb.PutRequest(key=key, value=to_value(desired, self.pair, domain))
        request = pb.TxnRequest(
            compare=[condition],
            success=[pb.RequestOp(request_put=put)],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key))],
        )
        endpoint = self._first
        try:
            reply = await self._txn(endpoint, request)
            if reply is None:
                return CasUnknown(self._unreadable(endpoint))
            self._connected = True
            if reply.succeeded:
                return CasDone(desired)
            if len(reply.responses) != 1:
                return CasUnknown(f"etcd {endpoint} answered with {len(reply.responses)} results, not 1")
            current = self._found(domain, reply.responses[0].response_range.kvs)
        except grpc.aio.AioRpcError as error:
            return CasUnknown(
                self._failed(endpoint, error)
            )  # P1: whatever the error says, it may come from anything between
        except BadRegisterError as error:
            return CasUnknown(str(error))
        if current == desired:
            return CasDone(current)  # a repetition of the set that is in force: the nonce says so
        return CasRefused(current, check_set(current, expected, desired) or "the register has changed")

    async def _refused(self, domain: str, why: str) -> CasOutcome:
        found = await self._read(domain)
        return CasUnknown(found.why) if isinstance(found, Unreachable) else CasRefused(found.register, why)

    def _found(self, domain: str, pairs: Sequence[pb.KeyValue]) -> Register:
        """No key is a register that nobody ever set: it vouches for nobody."""
        if not pairs:
            return Register()
        try:
            return from_value(pairs[0].value, self.pair, domain)
        except BadRegisterError as error:
            key = self._key(domain).decode()
            raise BadRegisterError(
                f"etcd's key {key}: {error}; put back what a member wrote there, or delete the key: then the pair "
                "forms anew and vouches for nobody"
            ) from error

    def _register_of(self, domain: str, event: pb.Event) -> Register:
        return self._found(domain, [] if event.type == pb.EVENT_TYPE_DELETE else [event.kv])

    def _failed(self, endpoint: str, error: grpc.aio.AioRpcError) -> str:
        self._pass_over(endpoint)
        return f"etcd {endpoint}: {error.code().name} {error.details() or ''}".rstrip()

    def _unreadable(self, endpoint: str) -> str:
        self._pass_over(endpoint)
        return f"etcd {endpoint} has sent what nobody can read"

    def _pass_over(self, endpoint: str) -> None:
        after = self.endpoints.index(endpoint) + 1
        self._first, self._connected = self.endpoints[after % len(self.endpoints)], False

    def _in_order(self) -> tuple[str, ...]:
        at = self.endpoints.index(self._first)
        return self.endpoints[at:] + self.endpoints[:at]

    def _key(self, domain: str) -> bytes:
        return key_of(self.prefix, self.pair, domain)

    # -- etcd's methods, called by path; gRPC gives None for an answer that it cannot read ---------------------------

    async def _range(self, endpoint: str, request: pb.RangeRequest, timeout_s: float) -> pb.RangeResponse | None:
        method = self._channel(endpoint).unary_unary(
            "/etcdserverpb.KV/Range",
            request_serializer=pb.RangeRequest.SerializeToString,
            response_deserializer=pb.RangeResponse.FromString,
        )
        return await method(request, timeout=timeout_s, metadata=METADATA)

    async def _txn(self, endpoint: str, request: pb.TxnRequest) -> pb.TxnResponse | None:
        method = self._channel(endpoint).unary_unary(
            "/etcdserverpb.KV/Txn",
            request_serializer=pb.TxnRequest.SerializeToString,
            response_deserializer=pb.TxnResponse.FromString,
        )
        return await method(request, timeout=self.timeout_s, metadata=METADATA)

    def _watch_call(self) -> _Watch:
        method = self._channel(self._first).stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=pb.WatchRequest.SerializeToString,
            response_deserializer=pb.WatchResponse.FromString,
        )
        return cast("_Watch", method(metadata=METADATA))

    def _channel(self, endpoint: str) -> grpc.aio.Channel:
        return self._channels[endpoint].get()

"""Hostile inputs at the port for tokens: none, those that must not be believed, and a good one that claims too much."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from chaos.hostile.inputs import Attack, hostile
from chaos.hostile.target import Target
from chaos.secure.impostors import CLAIMS
from chaos.secure.issuer import Issuer, new_key
from tandemq.credentials.files import AUTHORITY
from tandemq.errors import from_rpc_error
from tandemq.v1 import queue_service_pb2 as pb

CALL_S = 20.0
HUGE = 4 << 20
NONE = "of alg none"
GOOD = "good"
Metadata = Iterable[tuple[str, str]]


def false_tokens(of: Issuer) -> dict[str, str]:
    """By what is wrong with each; and a good one, of billing."""
    good = of.token("billing")
    header = base64.urlsafe_b64encode(json.dumps({"alg": "none", "typ": "JWT"}).encode()).rstrip(b"=").decode()
    return {
        GOOD: good,
        NONE: f"{header}.{good.split('.')[1]}.",
        "of alg none, with a signature": ".".join((header, *good.split(".")[1:])),
        "signed with the public key": of.token("ops", key="x" * 32, algorithm="HS256"),
        "of another key": of.token("ops", key=new_key()),
        "for somebody else": of.token("ops", aud="another-service"),
        "of another issuer": of.token("ops", iss="https://elsewhere.example"),
        "from yesterday": of.token("ops", exp=1_600_000_000),
        "of a member": of.token("member/pair/a"),
    }


async def _said(target: Target, metadata: Metadata) -> str:
    """What a send is answered, at each member."""
    request = pb.EnqueueRequest(queue="orders", request_id=os.urandom(16), messages=[{"payload": b"x"}])
    authority = (Path(target.who("billing")) / AUTHORITY).read_bytes()
    said = set()
    for endpoint in target.bearers.values():
        credentials = grpc.ssl_channel_credentials(authority)
        async with grpc.aio.secure_channel(endpoint, credentials) as channel:
            call: Any = channel.unary_unary("/tandemq.v1.QueueService/Enqueue")
            try:
                await call(request.SerializeToString(), metadata=tuple(metadata), timeout=CALL_S)
            except grpc.aio.AioRpcError as error:
                said.add(from_rpc_error(error).reason or error.code().name)
            else:
                said.add("OK")
    return ", ".join(sorted(said))


def _bearer(token: str) -> tuple[str, str]:
    return "authorization", f"Bearer {token}"


def _refused(what: str, wanted: str) -> None:
    async def attack(target: Target) -> str:
        return await _said(target, [_bearer(target.tokens[what])])

    hostile(f"a token {what}", wanted)(attack)


for _what in (NONE, "of alg none, with a signature", "signed with the public key", "of another key"):
    _refused(_what, "TOKEN_REFUSED")
for _what in ("for somebody else", "of another issuer", "of a member"):
    _refused(_what, "TOKEN_REFUSED")
_refused("from yesterday", "TOKEN_EXPIRED")


def _claims(claim: tuple[str, str]) -> Attack:
    async def attack(target: Target) -> str:
        return await _said(target, [_bearer(target.tokens[GOOD]), claim])

    return attack


for _claim in CLAIMS:
    hostile(f"a good token with {_claim[0]}", "PERMISSION_DENIED")(_claims(_claim))


@hostile("no token, at the port for them", "TOKEN_REQUIRED")
async def without(target: Target) -> str:
    """And no certificate, which that port does not ask for."""
    return await _said(target, [])


@hostile("two tokens", "TOKEN_REQUIRED")
async def two(target: Target) -> str:
    """Either is good."""
    return await _said(target, [_bearer(target.tokens[GOOD])] * 2)


@hostile("a token of 4 MB", "(RESOURCE_EXHAUSTED|UNREACHABLE)(, UNREACHABLE)?")
async def huge(target: Target) -> str:
    """Longer than the metadata of a call may be: gRPC refuses it, or ends the connection."""
    return await _said(target, [_bearer("x" * HUGE)])


@hostile("a token of 7 kB", "TOKEN_REFUSED")
async def long(target: Target) -> str:
    """It fits into the metadata of a call, and is longer than one may be."""
    return await _said(target, [_bearer("x" * 7_000)])

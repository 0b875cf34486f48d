"""Keeps the rights of principals: decides which may be granted and revoked, and does what a record says of them.
Whether somebody may do something is for `machine/state/rights.py`, by what is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from replica.machine.state import config as rules
from replica.machine.state.errors import Refused
from replica.machine.state.rights import ELSEWHERE, OF_PAIR, OF_QUEUES, Grant, Key, Rights
from replica.machine.state.state import State
from replica.machine.state.system_names import is_system, manager_of
from tandemq.credentials import names
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, rights_service_pb2

SYSTEM = "SYSTEM."
"""Queues that a manager makes for itself: nobody creates them, and rights on them may be granted."""


@dataclass(frozen=True, slots=True)
class RightCall:
    principal: str
    right: int
    pattern: str
    revoked: bool
    expected_version: int | None  # None: any
    by: str
    request_id: bytes
    request_hash: int


def principal_named(name: str) -> str:
    """`billing` is `principal/billing`. Refused (BAD_REQUEST) for what stands in no certificate."""
    who = name if "/" in name else f"principal/{name}"
    if problem := names.problem_of(who):
        raise Refused(common_pb2.REASON_BAD_REQUEST, f"principal {problem}", {"principal": name})
    return who


def plan_right(state: State, now_ms: int, call: RightCall) -> record_pb2.RecordHeader | None:
    """None: it is as the call wants it already."""
    rights = state.rights
    key = _checked(state, call)
    if call.expected_version is not None and call.expected_version != rights.version:
        text = (
            f"the rights have version {rights.version}, and version {call.expected_version} was expected: look at them "
            "again"
        )
        raise Refused(common_pb2.REASON_VERSION_MISMATCH, text, {"version": str(rights.version)})
    if call.revoked and key not in rights.grants:
        text = f"{key.principal} was not granted {right_name(key.right)} {key.pattern}".rstrip() + ": list what was"
        raise Refused(common_pb2.REASON_RIGHT_NOT_FOUND, text, facts_of(key))
    if not call.revoked:
        if key in rights.grants:
            return None
        if len(rights.grants) >= state.limits.rights_max:
            text = (
                f"there are {len(rights.grants)} grants, which is the most there may be: use patterns, or revoke some"
            )
            raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, {"limit": str(state.limits.rights_max)})
    op = record_pb2.RightsOp(
        principal=key.principal,
        right=key.right,
        pattern=key.pattern,
        revoked=call.revoked,
        version=rights.version + 1,
        by=call.by,
    )
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, rights=op
    )


def _checked(state: State, call: RightCall) -> Key:
    principal = principal_named(call.principal)
    if call.right in OF_PAIR:
        if call.pattern:
            text = (
                f"{right_name(call.right)} is a right on the pair, and not on queues: leave out {call.pattern[:300]!r}"
            )
            raise Refused(common_pb2.REASON_BAD_REQUEST, text)
    elif call.right in OF_QUEUES:
        check_pattern(state, call.pattern)
    else:
        text = f"there is no right {call.right}; there are produce, consume, browse, administer, observe and operate"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text)
    return Key(principal, call.right, call.pattern)


def check_pattern(state: State, pattern: str) -> None:
    """Refused (BAD_NAME) where it covers no name that a queue could have."""
    rest = pattern.removeprefix(ELSEWHERE)
    above, _, last = rest.rpartition("/")
    name = above if last in ("*", "**") else rest
    if (not name and last in ("*", "**")) or is_system(name):
        return
    if pattern.startswith(ELSEWHERE):
        to, slash, queue = name.partition("/")
        name = f"{manager_of(to)}{slash}{queue}"
    try:
        rules.check_name(name.removeprefix(SYSTEM), state.limits, what="pattern")
    except Refused as refused:
        text = f"{refused.message}; write orders, orders/*, orders/**, * or **"
        raise Refused(refused.reason, text, {"pattern": pattern}) from refused


def right_name(right: int) -> str:
    """As people write it."""
    return str(rights_service_pb2.Right.Name(right)).removeprefix("RIGHT_").lower()


def facts_of(key: Key) -> dict[str, str]:
    """For a refusal."""
    return {"principal": key.principal, "right": right_name(key.right), "object": key.pattern or "pair"}


def apply_rights(state: State, log_index: int, time_ms: int, op: record_pb2.RightsOp) -> None:
    rights = state.rights
    assert op.version == rights.version + 1, "a version is given once, and none is left out"
    key = Key(op.principal, op.right, op.pattern)
    grant = None if op.revoked else Grant(key, op.version, log_index, op.by, time_ms)
    rights.change(log_index, key, grant, op.version)


class RightRow(msgspec.Struct, array_like=True):
    """As it stands in a snapshot."""

    principal: str
    right: int
    pattern: str
    version: int
    log_index: int
    by: str
    granted_ms: int


def right_rows(state: State) -> list[RightRow]:
    return [
        RightRow(*key, grant.version, grant.log_index, grant.by, grant.granted_ms)
        for key, grant in sorted(state.rights.grants.items())
    ]


def rights_of(rows: Sequence[RightRow], version: int, commit_index: int) -> Rights:
    grants = [
        Grant(Key(row.principal, row.right, row.pattern), row.version, row.log_index, row.by, row.granted_ms)
        for row in rows
    ]
    return Rights.of(grants, version, commit_index)

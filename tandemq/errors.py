"""Decides what a refusal means to a caller: its class, its gRPC status, whether it is certain, whether repeating helps.

It never retries, logs or talks to anybody. One table covers every reason of the contract; server and client read the
same one. grpc and protobuf are imported when an error is translated, not before: a command line starts without them.
"""
# ruff: noqa: N818 - the names are what a caller reads in an except clause: NotFound, InDoubt, Unavailable

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tandemq.over_quota import QUOTA

if TYPE_CHECKING:
    import grpc

    from tandemq.v1 import common_pb2

DOMAIN = "tandemq"  # of ErrorInfo
DETAILS_KEY = "grpc-status-details-bin"  # trailing metadata that carries google.rpc.Status
PREFIX = "REASON_"
OUTCOME = "outcome"  # metadata of a refusal whose operation is, or may be, done all the same
STORED = "stored"  # it was ordered
UNKNOWN = "unknown"  # an earlier attempt of the same call may have been carried out: nobody is there who knows


class TandemqError(Exception):
    """Base of everything that this package raises about a call.

    reason: a name of tandemq.v1.Reason without its prefix, or one of the local reasons UNREACHABLE, DEADLINE_EXCEEDED,
    NO_PROGRESS, CLOSED, BUFFER_FULL, and the bare gRPC code's name when a reply carried no reason of ours.
    metadata: facts by name (epoch, master, last_sequence, limit...).
    retry_after: how long to wait before the same call may succeed; None when waiting does not help or nobody knows.
    definite: True when the call certainly had no effect. False means it may have been done, now or later.
    retryable: True when repeating it with the same identity is worthwhile; the client did so until its deadline.
    """

    def __init__(
        self,
        reason: str,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        retry_after: timedelta | None = None,
        *,
        definite: bool = False,
        retryable: bool = False,
    ) -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        self.reason = reason
        self.message = message
        self.metadata: dict[str, str] = dict(metadata or {})
        self.retry_after = retry_after
        self.definite = definite
        self.retryable = retryable

    def in_doubt(self) -> TandemqError:
        """The same refusal of a call that was also sent before: an earlier copy may still take effect."""
        return type(self)(self.reason, self.message, self.metadata, self.retry_after, retryable=self.retryable)

    def again(self) -> TandemqError:
        """The same, for one more of those who waited for one answer: each raises an exception of its own."""
        return type(self)(
            self.reason,
            self.message,
            self.metadata,
            self.retry_after,
            definite=self.definite,
            retryable=self.retryable,
        )


class NotFound(TandemqError):
    """No such queue, manager, message or handle."""


class AlreadyExists(TandemqError):
    """The name is taken, or another member holds the role."""


class InvalidRequest(TandemqError):
    """The request can never succeed as it is."""


class Refused(TandemqError):
    """Not in the present state; something else has to change first."""


class LeaseLost(Refused):
    """The lease ended: the message may be with somebody else, or gone."""


class UnitAborted(Refused):
    """A unit of work is not open any more. Nothing of it happened, and never will: begin it anew."""


class ResourceExhausted(TandemqError):
    """A limit is reached: the queue's, the store's, or this client's own buffer."""


class Unavailable(TandemqError):
    """Not applied; nobody serves it at the moment. The same call may be repeated."""


class Denied(TandemqError):
    """The caller is not who may do this."""


class ServerFault(TandemqError):
    """The member found damage or a bug of its own."""


class InDoubt(TandemqError):
    """The outcome is unknown. Repeating the call with the same identity tells it."""


class Unreachable(InDoubt):
    """The connection failed or broke."""


class TimedOut(InDoubt):
    """The deadline passed without an answer."""


class Closed(TandemqError):
    """This client, producer or consumer was closed."""


class Rule(NamedTuple):
    """What a reason means. `definite` and `retryable` as in TandemqError."""

    status: str  # name of a grpc.StatusCode
    definite: bool
    retryable: bool


_MISSING = Rule("NOT_FOUND", definite=True, retryable=False)
_EXISTS = Rule("ALREADY_EXISTS", definite=True, retryable=False)
_STATE = Rule("FAILED_PRECONDITION", definite=True, retryable=False)
_INVALID = Rule("INVALID_ARGUMENT", definite=True, retryable=False)
_FULL = Rule("RESOURCE_EXHAUSTED", definite=True, retryable=False)
_AWAY = Rule("UNAVAILABLE", definite=True, retryable=True)
_NOBODY = Rule("UNAUTHENTICATED", definite=True, retryable=False)
_DAMAGE = Rule("DATA_LOSS", definite=False, retryable=False)

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "UNSPECIFIED": Rule("UNKNOWN", definite=False, retryable=False),
        "QUEUE_NOT_FOUND": _MISSING,
        "MANAGER_NOT_FOUND": _MISSING,
        "MESSAGE_NOT_FOUND": _MISSING,
        "INVALID_HANDLE": _MISSING,
        "QUEUE_EXISTS": _EXISTS,
        "E_MASTER_EXISTS": _EXISTS,
        "INVALID_STATE": _STATE,
        "ENQUEUE_DISABLED": _STATE,
        "DEQUEUE_DISABLED": _STATE,
        "CONFIG_MISMATCH": _STATE,
        "CONFIG_ERROR": _STATE,
        "LEASE_LOST": _STATE,
        "CROSS_DOMAIN": _STATE,
        "NOT_EMPTY": _STATE,
        "VERSION_MISMATCH": _STATE,
        "MESSAGE_TOO_LARGE": _INVALID,
        "BAD_NAME": _INVALID,
        "BAD_ATTRIBUTE": _INVALID,
        "READ_ONLY": _INVALID,
        "BAD_REQUEST": _INVALID,
        "QUEUE_FULL": _FULL,
        "QUOTA_EXCEEDED": _FULL,
        "STORAGE_FULL": _FULL,
        "TOO_MANY_WAITERS": _FULL,
        "STALE_EPOCH": Rule("ABORTED", definite=True, retryable=True),
        "NO_MASTER": _AWAY,
        "SYNCING": _AWAY,
        "DRAINING": _AWAY,
        "SUSPENDED": _AWAY,
        "NOT_MASTER": _AWAY,
        # The peer may be away for hours: who asked for two copies is told at once and decides.
        "NOT_ENOUGH_COPIES": Rule("UNAVAILABLE", definite=True, retryable=False),
        # This repetition was not executed, but nobody remembers whether the first one was.
        "DEDUP_EXPIRED": Rule("FAILED_PRECONDITION", definite=False, retryable=False),
        "REQUEST_MISMATCH": _INVALID,
        "SEQUENCE_GAP": _STATE,  # a producer resends from last_sequence + 1; see client/outbox.py
        "DIGEST_MISMATCH": _DAMAGE,
        "CORRUPT_STORE": _DAMAGE,
        "WRONG_PAIR": _STATE,
        "NEWER_FORMAT": _STATE,
        "DIRECTORY_IN_USE": _STATE,
        "PORT_IN_USE": _STATE,
        "INTERNAL": Rule("INTERNAL", definite=False, retryable=False),
        "ALIAS_EXISTS": _EXISTS,
        "ALREADY_REPLIED": _EXISTS,
        "REPLY_REQUIRED": _STATE,
        "NOT_TWO_WAY": _STATE,
        "BAD_SELECTOR": _INVALID,
        "LOOP_LIMIT": _STATE,
        "MANAGER_UNREACHABLE": _AWAY,
        "REMOTE_NOT_ALLOWED": Rule("PERMISSION_DENIED", definite=True, retryable=False),
        "OUT_OF_RANGE": Rule("OUT_OF_RANGE", definite=True, retryable=False),
        "EPOCH_DIVERGED": _STATE,
        "READER_NOT_FOUND": _MISSING,
        "READER_LOST": Rule("OUT_OF_RANGE", definite=True, retryable=False),
        "PAIR_CHANGED": _STATE,
        "BATCH_GONE": _STATE,
        "BATCH_GAP": _STATE,
        "STAGE_NOT_FOUND": _MISSING,
        "WRITER_TAKEN": _STATE,
        "RELATIONSHIP_MISMATCH": _STATE,
        "WEIGHTS_NOT_FOUND": _MISSING,
        "BAD_WEIGHTS": _INVALID,
        "TXN_TOO_LARGE": _INVALID,
        "TXN_ABORTED": Rule("ABORTED", definite=True, retryable=False),
        "REACTION_DISABLED": _STATE,
        "GROUP_MISMATCH": _STATE,
        "TWIN_TAKEN": _EXISTS,
        "SIDE_LOST": Rule("OUT_OF_RANGE", definite=True, retryable=False),
        "PERMISSION_DENIED": Rule("PERMISSION_DENIED", definite=True, retryable=False),
        "RIGHT_NOT_FOUND": _MISSING,
        "TOKEN_REQUIRED": _NOBODY,
        "TOKEN_REFUSED": _NOBODY,
        "TOKEN_EXPIRED": _NOBODY,
        "TOKEN_KEYS_MISSING": _AWAY,
    }
)

_FAMILIES: Mapping[str, type[TandemqError]] = MappingProxyType(
    {
        "NOT_FOUND": NotFound,
        "ALREADY_EXISTS": AlreadyExists,
        "INVALID_ARGUMENT": InvalidRequest,
        "FAILED_PRECONDITION": Refused,
        "RESOURCE_EXHAUSTED": ResourceExhausted,
        "UNAVAILABLE": Unavailable,
        "ABORTED": Unavailable,
        "DATA_LOSS": ServerFault,
        "INTERNAL": ServerFault,
        "UNKNOWN": InDoubt,
        "PERMISSION_DENIED": Denied,
        "UNAUTHENTICATED": Denied,
        "OUT_OF_RANGE": Refused,
    }
)
_OWN_CLASSES: Mapping[str, type[TandemqError]] = MappingProxyType({"LEASE_LOST": LeaseLost, "TXN_ABORTED": UnitAborted})

# Replies that carry no reason of ours come from gRPC itself, a proxy, or a crash: nothing is certain (rulings.md 11)
# unless the call cannot have been understood.
_BARE: Mapping[str, tuple[type[TandemqError], str, bool]] = MappingProxyType(
    {
        "UNAVAILABLE": (Unreachable, "UNREACHABLE", False),
        "DEADLINE_EXCEEDED": (TimedOut, "DEADLINE_EXCEEDED", False),
        "UNAUTHENTICATED": (Denied, "UNAUTHENTICATED", True),
        "PERMISSION_DENIED": (Denied, "PERMISSION_DENIED", True),
        "UNIMPLEMENTED": (Refused, "UNIMPLEMENTED", True),
        "INVALID_ARGUMENT": (InvalidRequest, "INVALID_ARGUMENT", True),
        "RESOURCE_EXHAUSTED": (ResourceExhausted, "RESOURCE_EXHAUSTED", False),
    }
)


def reason_name(reason: int | str) -> str:
    """The name that ErrorInfo carries, from a value of tandemq.v1.Reason or its name; else UNSPECIFIED."""
    if isinstance(reason, str):
        name = reason.removeprefix(PREFIX)
    else:
        from tandemq.v1 import common_pb2

        value = common_pb2.Reason.DESCRIPTOR.values_by_number.get(reason)
        name = value.name.removeprefix(PREFIX) if value is not None else "UNSPECIFIED"
    return name if name in RULES else "UNSPECIFIED"


def rule_for(reason: int | str) -> Rule:
    """What the table says of a reason; an unknown one is in doubt and not worth repeating."""
    return RULES[reason_name(reason)]


def status_for(reason: int | str) -> grpc.StatusCode:
    """The status of a call that is refused for this reason, and had no effect."""
    import grpc

    code: grpc.StatusCode = grpc.StatusCode[rule_for(reason).status]
    return code


def status_of(error: common_pb2.Error) -> grpc.StatusCode:
    """The status of a call that is refused with this. UNAVAILABLE with our ErrorInfo means "not applied" (rulings.md
    11), so what was stored after all, or may be, is ABORTED, whatever its reason.
    """
    import grpc

    aborted: grpc.StatusCode = grpc.StatusCode.ABORTED
    return aborted if _may_be_done(error.metadata) else status_for(error.reason)


def _may_be_done(metadata: Mapping[str, str] | None) -> bool:
    """The refusal does not speak of whether the operation was done: it is of its copies, or of a later attempt."""
    return (metadata or {}).get(OUTCOME) in (STORED, UNKNOWN)


def error_of(
    reason: int | str,
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    retry_after: timedelta | None = None,
) -> TandemqError:
    """The exception for a reason of the contract."""
    name = reason_name(reason)
    status, definite, retryable = RULES[name]
    # What is used up by the second comes back by itself; of other limits nobody knows when they are free.
    paced = name == "QUOTA_EXCEEDED" and QUOTA in (metadata or {})
    # A stream that outlived its token is opened with the one of now; a call whose token is over already is not.
    retryable = retryable or (retry_after is not None and (paced or name == "TOKEN_EXPIRED"))
    family = _OWN_CLASSES.get(name, _FAMILIES[status])
    definite = definite and not _may_be_done(metadata)
    return family(name, message, metadata, retry_after, definite=definite, retryable=retryable)


def to_error(error: common_pb2.Error) -> TandemqError:
    """The exception for a refusal inside a stream frame or a batch result."""
    wait = error.retry_after.ToTimedelta() if error.HasField("retry_after") else None
    return error_of(error.reason, error.message, error.metadata, wait)


def status_details(error: common_pb2.Error) -> bytes:
    """The value of trailing metadata `grpc-status-details-bin` with which a server refuses a whole call; its code is
    that of `status_of`.
    """
    from google.protobuf.any_pb2 import Any as AnyMessage
    from google.rpc import error_details_pb2, status_pb2

    code: int = status_of(error).value[0]
    status = status_pb2.Status(code=code, message=error.message)
    info = error_details_pb2.ErrorInfo(reason=reason_name(error.reason), domain=DOMAIN, metadata=error.metadata)
    details: list[Any] = [info]
    if error.HasField("retry_after"):
        details.append(error_details_pb2.RetryInfo(retry_delay=error.retry_after))
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    data: bytes = status.SerializeToString()
    return data


def from_rpc_error(error: grpc.RpcError) -> TandemqError:
    """The exception for a call that failed. A bare UNAVAILABLE or DEADLINE_EXCEEDED is in doubt, never definite."""
    call: Any = error  # every error that a call raises is also a call; the stubs of grpc do not say so
    status = call.code().name
    text = call.details() or ""
    ours = of_trailers(call.trailing_metadata() or ())
    if ours is not None:
        return ours
    family: type[TandemqError]
    family, reason, definite = _BARE.get(status, (InDoubt, status, False))
    return family(reason, text, definite=definite, retryable=issubclass(family, InDoubt))


def of_trailers(trailers: Iterable[tuple[str, str | bytes]]) -> TandemqError | None:
    """What the trailing metadata of a refused call say; None: they say nothing of ours."""
    data = next((value for key, value in trailers if key == DETAILS_KEY), None)
    if not isinstance(data, bytes):
        return None
    from google.protobuf.message import DecodeError
    from google.rpc import error_details_pb2, status_pb2

    info, retry, status = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), status_pb2.Status()
    try:
        status.ParseFromString(data)
        for detail in status.details:
            detail.Unpack(info)  # leaves the message alone when the detail is of another type
            detail.Unpack(retry)
    except DecodeError:
        return None
    if info.domain != DOMAIN:
        return None
    wait = retry.retry_delay.ToTimedelta() if retry.HasField("retry_delay") else None
    if info.reason in RULES:
        return error_of(str(info.reason), str(status.message), dict(info.metadata), wait)
    return InDoubt(str(info.reason), str(status.message), dict(info.metadata), wait)  # a newer server's word

"""Refusals as they go over the wire, short enough for every client. Decides nothing about what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from google.protobuf.duration_pb2 import Duration

from replica.core.state.outcomes import Failed, Moved
from tandemq import refusing
from tandemq.v1.common_pb2 import Error, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc

# A refusal names what the caller sent, and that may have any length. A status travels in headers, of which clients take
# 8 KiB by default: in them each byte of the text may become three, and all of it comes again in the details, where
# three bytes become four. 3 x 1,024 + 4/3 x (1,024 + 6 x (32 + 160) + what frames them) stays below.
TEXT_BYTES_MAX = 1_024
METADATA_MAX = 6
NAME_BYTES_MAX, VALUE_BYTES_MAX = 32, 160
UTF8_BYTES_MAX = 4  # of one character


def failure(failed: Failed) -> Error:
    """A refusal as it stands in frames, batch results and statuses: short enough for all of them."""
    error = Error(reason=failed.reason, message=_cut(failed.message, TEXT_BYTES_MAX))
    for name, value in list(failed.metadata.items())[:METADATA_MAX]:
        error.metadata[_cut(name, NAME_BYTES_MAX)] = _cut(value, VALUE_BYTES_MAX)
    if failed.retry_after_ms is not None:
        error.retry_after.CopyFrom(
            Duration(nanos=failed.retry_after_ms % 1000 * 1_000_000, seconds=failed.retry_after_ms // 1000)
        )
    return error


def _cut(text: str, bytes_max: int) -> str:
    """At most so many bytes, and where something is left out, how long it was."""
    if len(text) <= bytes_max // UTF8_BYTES_MAX:
        return text
    data = text.encode(errors="replace")
    if len(data) <= bytes_max:
        return text
    ending = f"... ({len(data)} bytes)"
    return data[: bytes_max - len(ending)].decode(errors="ignore") + ending


def refusal(reason: Reason, message: str, metadata: dict[str, str] | None = None) -> Failed:
    """A refusal that the shell itself makes."""
    return Failed(reason, message, metadata or {}, None)


async def abort(context: grpc.aio.ServicerContext, failed: Failed | Moved) -> NoReturn:  # type: ignore[type-arg]  # serializers are bytes
    """Refuse the whole call: status, ErrorInfo, RetryInfo."""
    if isinstance(failed, Moved):
        failed = Failed(Reason.REASON_NOT_MASTER, failed.message, {}, 100)
    if failed.unseen is not None and isinstance(context, Seeing):
        failed = context.shown(failed)
    await refusing.abort(context, failure(failed))


class Seeing:
    """The context of a call whose caller may see some queues and no others: a refusal names none of those."""

    def __init__(self, context: Any, sees: Callable[[str], bool]) -> None:
        self._context, self._sees = context, sees

    def shown(self, failed: Failed) -> Failed:
        """As that one gets it."""
        if failed.unseen is None or all(map(self._sees, failed.unseen.names)):
            return failed
        names, text = failed.unseen
        facts = {key: value for key, value in failed.metadata.items() if value not in names}
        return failed._replace(message=text, metadata=facts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

"""What a stream that is over says: an error that may be tried again, and nothing when it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import grpc.aio
import pytest

from tandemq.client.streams import Ended, Stream
from tandemq.errors import TandemqError, TimedOut, Unreachable
from tests.support import virtual_time


class Over:
    """A call of gRPC whose stream is over; it says so to whoever reads or writes."""

    async def read(self) -> bytes:
        raise asyncio.InvalidStateError

    async def write(self, _frame: bytes) -> None:
        raise asyncio.InvalidStateError

    async def done_writing(self) -> None:
        raise asyncio.InvalidStateError


class Silent:
    """A call on which nothing comes."""

    async def read(self) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError


class AtItsEnd:
    """A call that the member ended in good order."""

    async def read(self) -> object:
        return grpc.aio.EOF


USES: dict[str, Callable[[Stream], Awaitable[object]]] = {
    "read": lambda stream: stream.read(),
    "write": lambda stream: stream.write(b"frame"),
    "read_first": lambda stream: stream.read_first(1.0),
}


@pytest.mark.parametrize("use", USES)
async def test_a_stream_that_is_over_may_be_opened_again(use: str) -> None:
    with pytest.raises(Unreachable, match="a:1: the stream is over") as caught:
        await USES[use](Stream(Over(), "a:1"))
    assert (caught.value.retryable, caught.value.definite) == (True, False)


async def test_to_close_one_that_is_over_is_nothing() -> None:
    await Stream(Over(), "a:1").half_close()


async def test_an_end_in_good_order_may_be_followed_by_another_stream() -> None:
    with pytest.raises(Ended) as caught:
        await Stream(AtItsEnd(), "a:1").read()
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("patience_s", "heard_s", "after_s"),
    [(0.0, 0.0, 2.0), (0.0, 1.5, 2.0), (9.0, 0.0, 2.0), (9.0, 1.5, 3.5), (3.0, 1.5, 3.0)],
)
def test_a_silent_member_is_left_and_one_that_speaks_to_others_is_waited_for(
    patience_s: float, heard_s: float, after_s: float
) -> None:
    async def left() -> tuple[TandemqError, float]:
        loop = asyncio.get_running_loop()

        def heard() -> float:
            return heard_s if loop.time() >= heard_s else 0.0

        with pytest.raises(TimedOut) as caught:
            await Stream(Silent(), "a:1").read_first(2.0, patience_s=patience_s, heard_s=heard)
        return caught.value, loop.time()

    error, at_s = virtual_time.run(left())
    assert at_s == pytest.approx(after_s)
    assert error.retryable
    assert f"a:1 did not answer within {after_s:.1f} s" in str(error)

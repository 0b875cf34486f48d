"""The first signal cancels once, the second only tells, the third gives healing up."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tandemq.cli.drill_signals import Signals, StoppedError


class Play:
    """Ends by a signal to this process, and gets more of them while it heals."""

    def __init__(self, number: int, count: int) -> None:
        self._number, self._count = number, count
        self.said: list[str] = []
        self.given_up = 0
        self.cancelled_while_healing = 0
        self.signals = Signals(self.said.append, self._give_up)

    def _give_up(self) -> None:
        self.given_up += 1

    async def run(self) -> None:
        try:
            signal.raise_signal(self._number)
            await asyncio.Event().wait()
        finally:
            for _ in range(self._count - 1):
                signal.raise_signal(self._number)
            while len(self.signals.came) < self._count:
                await self._heal_on()
            await self._heal_on()

    async def _heal_on(self) -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled_while_healing += 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("count", "ends_it"), [(1, 0), (2, 0), (3, 1)])
def test_only_the_third_signal_ends_healing(number: signal.Signals, count: int, ends_it: int) -> None:
    play = Play(number, count)

    async def interrupted() -> None:
        with pytest.raises(StoppedError):
            await play.signals.interrupt(play.run())

    asyncio.run(interrupted())
    assert play.signals.came == [number.name] * count
    assert (play.given_up, play.cancelled_while_healing) == (ends_it, ends_it)
    assert len(play.said) == count
    assert play.said[0].startswith(f"stopped by {number.name}")
    failure = play.signals.failure(None)
    assert (failure.exit_code, failure.reason) == (2, "INTERRUPTED")


def test_what_ends_by_itself_is_not_stopped() -> None:
    async def ended() -> int:
        return await Signals(pytest.fail, pytest.fail).interrupt(seven())

    async def seven() -> int:
        return 7

    assert asyncio.run(ended()) == 7

"""What of a twin's state is saved and given away, and which inputs are settled for it (K10)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tandemq.twin.saving import Handling, Saving
from tandemq.twin.snapshots import Snapshots, TwinSnapshot
from tests.support.until import OUTER_S

HELD_MAX = 10


class Given:
    """Inputs of a delivery."""

    def __init__(self) -> None:
        self.is_settled = False

    def ack(self) -> None:
        self.is_settled = True


def behind(index: int) -> TwinSnapshot:
    return TwinSnapshot("sums", "1", "q", index, 0, 0, b"{}")


async def at_once(_index: int) -> None:
    """Nothing was sent that is not there."""


@pytest.fixture
def handling() -> Handling:
    return Handling("numbers")


@pytest.fixture
def saving(tmp_path: Path, handling: Handling) -> Saving:
    return Saving(Snapshots(tmp_path), handling, HELD_MAX)


async def test_k10_a_state_that_is_half_made_is_neither_saved_nor_given(
    tmp_path: Path, saving: Saving, handling: Handling
) -> None:
    """The handler has raised, and whatever was about to look at the state does so before the process ends by that: its
    twin may wait for it.
    """
    await saving.save(lambda: behind(1), at_once)
    handling.index = 2
    with pytest.raises(ValueError, match="in the middle") as raised, handling:
        raise ValueError("in the middle")
    assert raised.value.__notes__ == ["at input 2 of numbers; its twin comes to the same"]
    looked = list[int]()

    def half_made() -> TwinSnapshot:
        looked.append(1)
        return behind(2)

    asked = [asyncio.create_task(saving.save(half_made, at_once)) for _ in range(2)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(task.done() for task in asked)
    assert looked == []
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    newest = Snapshots(tmp_path).newest()
    assert newest is not None
    assert newest.index == 1


async def test_k10_inputs_are_settled_behind_a_snapshot_whose_outputs_are_there(tmp_path: Path, saving: Saving) -> None:
    first, second = Given(), Given()
    saving.acted(1, 2, first)
    saving.acted(3, 4, second)
    is_there = asyncio.Event()
    waited_for = list[int]()

    async def sent(index: int) -> None:
        waited_for.append(index)
        await is_there.wait()

    task = asyncio.create_task(saving.save(lambda: behind(3), sent))
    for _ in range(5):
        await asyncio.sleep(0)
    assert waited_for == [3]
    assert not first.is_settled
    assert Snapshots(tmp_path).newest() is None, "a state whose outputs may be missing is not on the disk"
    is_there.set()
    assert (await task).index == 3
    assert (first.is_settled, second.is_settled) == (True, False)
    again = Given()
    saving.acted(3, 3, again)  # the lease of it had ended
    assert (second.is_settled, again.is_settled) == (False, False), "in the order in which they came"
    await saving.save(lambda: behind(4), sent)
    assert second.is_settled
    assert again.is_settled
    known = Given()
    saving.acted(4, 4, known)
    assert known.is_settled, "at once: a snapshot has seen it"


async def test_k7_nothing_is_settled_before_what_is_given_is_known_to_be_what_was_seen(saving: Saving) -> None:
    """Where an older copy of the pair was put back other messages have these numbers, and nobody has acted on them."""
    saving.begins(48)
    given, behind_it = Given(), Given()
    saving.acted(41, 45, given)
    await saving.save(lambda: behind(48), at_once)
    assert not given.is_settled
    saving.acted(46, 50, behind_it)
    assert (given.is_settled, behind_it.is_settled) == (True, False)
    await saving.save(lambda: behind(50), at_once)
    assert behind_it.is_settled


def test_k7_no_more_of_it_is_held_than_goes_between_two_snapshots(saving: Saving) -> None:
    """A state that is its twin's may be further by a day, and credit ends."""
    saving.begins(1_000)
    given = [Given() for _ in range(4)]
    for place, each in enumerate(given):
        first = 1 + 5 * place
        saving.acted(first, first + 4, each)
        assert each.is_settled == (first + 4 > HELD_MAX)
    assert all(each.is_settled for each in given)


async def test_an_older_state_takes_no_snapshots_place(tmp_path: Path, saving: Saving) -> None:
    saving.begins(5)
    await saving.save(lambda: behind(5), at_once)
    assert Snapshots(tmp_path).newest() is None, "it is on the disk already"
    await saving.save(lambda: behind(6), at_once)
    newest = Snapshots(tmp_path).newest()
    assert newest is not None
    assert newest.index == 6


class Slow(Snapshots):
    """Its disk is."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.began, self.goes_on = threading.Event(), threading.Event()

    def write(self, snapshot: TwinSnapshot) -> None:
        self.began.set()
        assert self.goes_on.wait(OUTER_S)
        super().write(snapshot)


async def test_k10_who_is_cancelled_while_it_saves_ends_when_the_file_is_there(
    tmp_path: Path, handling: Handling
) -> None:
    """Otherwise whoever begins in this directory next writes the same file beside it."""
    slow = Slow(tmp_path)
    task = asyncio.create_task(Saving(slow, handling, HELD_MAX).save(lambda: behind(1), at_once))
    assert await asyncio.to_thread(slow.began.wait, OUTER_S)
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    is_done = task.done()
    slow.goes_on.set()
    assert not is_done
    with pytest.raises(asyncio.CancelledError):
        await task
    newest = Snapshots(tmp_path).newest()
    assert newest is not None
    assert newest.index == 1

"""When what is pending is folded: soon, at once when much is, again when more came, and never after the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from storage import folding
from storage.folding import Folder
from tests.support.until import OUTER_S


class Folds:
    """Each fold begins when the test lets it, and says what the test wants."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.more: list[bool] = []
        self.count = 0
        self.others = {*threading.enumerate()}  # stores of other tests may be open
        self.folder = Folder(self.fold)

    def fold(self) -> bool:
        self.count += 1
        self.begun.release()
        assert self.may_end.acquire(timeout=OUTER_S)
        return self.more.pop(0) if self.more else False

    def end(self, *, more: bool = False) -> None:
        self.more.append(more)
        self.may_end.release()

    def threads(self) -> list[str]:
        return [each.name for each in threading.enumerate() if each not in self.others]

    def wait(self) -> None:
        assert self.begun.acquire(timeout=OUTER_S)


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Folds]:
    """By itself it would fold in an hour."""
    monkeypatch.setattr(folding, "FOLD_S", 3_600.0)
    made = Folds()
    yield made
    made.may_end.release(9)
    made.folder.stop()


def test_soon_after_something_is_pending_it_is_folded(folds: Folds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "FOLD_S", 0.0)
    assert folds.threads() == [], "a store that is only read has no thread"
    for count in (1, 2):
        folds.folder.notify()
        folds.wait()
        folds.end()
        assert folds.count == count
    assert folds.threads() == ["tandemq-fold"]


def test_much_is_folded_at_once(folds: Folds) -> None:
    folds.folder.notify()
    folds.folder.notify()
    folds.folder.hurry()
    folds.folder.hurry()
    folds.wait()
    assert not folds.folder._hurry.is_set(), "the next one is in no hurry"
    assert not folds.folder._pending.is_set(), "and waits until there is something"
    folds.end()
    assert folds.threads() == ["tandemq-fold"]


def test_what_became_pending_meanwhile_is_folded_too(folds: Folds) -> None:
    folds.folder.notify()
    folds.folder.hurry()
    folds.wait()
    folds.folder.hurry()
    folds.end(more=True)
    folds.wait()
    assert folds.count == 2
    folds.end()


def test_the_end_waits_for_a_fold_under_way_and_none_follows(folds: Folds) -> None:
    folds.folder.notify()
    folds.folder.hurry()
    folds.wait()
    stopping = threading.Thread(target=folds.folder.stop)
    stopping.start()
    folds.end(more=True)
    stopping.join(OUTER_S)
    assert not stopping.is_alive()
    folds.folder.notify()
    folds.folder.hurry()
    assert (folds.count, folds.threads()) == (1, [])


def test_one_that_has_ended_begins_no_thread(folds: Folds) -> None:
    folds.folder.stop()
    folds.folder.notify()
    assert folds.threads() == []

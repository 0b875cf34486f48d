"""How often the process of a member or a witness looks through all its objects."""

from __future__ import annotations

import gc
import signal

import pytest

from tandemq.cli.failure import Failure
from tandemq.cli.serve import COLLECTED_AFTER, Server, _loading, _run


def test_a_process_that_serves_looks_through_all_its_objects_seldom() -> None:
    """Its loop stands still meanwhile, by as much as there are streams; with Python's own 10 a herd caused it again and
    again.
    """

    async def fails() -> Server:
        raise OSError("no such address")

    before, heard = gc.get_threshold(), {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(Failure):
            _run(fails(), "a", "127.0.0.1:0", until_stdin_closes=False)
        assert gc.get_threshold() == COLLECTED_AFTER
        assert COLLECTED_AFTER[2] >= 10 * before[2]
    finally:
        gc.set_threshold(*before)
        for number, handler in heard.items():  # a process that serves ends with its loop, and leaves them to it
            signal.signal(number, handler)


def test_what_is_loaded_at_the_start_is_looked_through_neither_then_nor_later() -> None:
    before, more = gc.get_freeze_count(), [[] for _ in range(1_000)]
    try:
        with _loading():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + len(more)
    finally:
        if not before:  # else what the run has set aside would be looked through again
            gc.unfreeze()

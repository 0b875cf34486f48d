"""The command `python -m chaos.twins`: twins through faults, compared with one process over the same file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from chaos.demos import Account, Place, end, play
from chaos.twins.account import FAIL, PASS, findings, judge, priority_of
from chaos.twins.picture import draw
from chaos.twins.story import EXAMPLE, OUTPUTS, TwinStory
from tandemq.demo.rows import flights
from tandemq.twin import JSON, Output
from tandemq.twin.digests import shown, state_digest


class _Given:
    """What the program asks of a message, without a pair."""

    def __init__(self, index: int, payload: bytes) -> None:
        self.index, self.payload, self.properties = index, payload, {"kind": "flight"}


def _board() -> ModuleType:
    if "board" not in sys.modules:
        spec = importlib.util.spec_from_file_location("board", EXAMPLE / "board.py")
        assert spec is not None, "a file of Python"
        assert spec.loader is not None, "as above"
        sys.modules["board"] = module = importlib.util.module_from_spec(spec)  # where chaos.twins.differing looks
        spec.loader.exec_module(module)
    return sys.modules["board"]


def _through(
    program: ModuleType, rows: Sequence[bytes], order: Sequence[int]
) -> Iterator[tuple[int, Any, list[Output]]]:
    """One process that nobody hurts, over the rows of the file in that order: each input, the state and outputs."""
    state = program.initial()
    for index, number in enumerate(order or range(1, len(rows) + 1), 1):
        state, made = program.handler(state, _Given(index, rows[number - 1]))
        yield index, state, made


def single(rows: Sequence[bytes], order: Sequence[int] = ()) -> tuple[dict[str, list[bytes]], Any]:
    """Of one process over the rows of the file in that order: outputs by queue, and the last state."""
    outputs, state = {queue: list[bytes]() for queue in OUTPUTS}, _board().initial()
    for _, after, made in _through(_board(), rows, order):
        state = after
        for output in made:
            outputs[output.queue].append(output.payload)
    return outputs, state


def first_difference(rows: Sequence[bytes], order: Sequence[int]) -> int:
    """The first input of which the program and the one that was made to differ make something else, found as
    docs/TWINS.md says: both over the same messages in one process. 0: there is none.
    """
    one = _through(_board(), rows, order)
    other = _through(importlib.import_module("chaos.twins.differing"), rows, order)
    return next((index for (index, _, mine), (_, _, theirs) in zip(one, other, strict=True) if mine != theirs), 0)


@click.command()
@click.option(
    "--rows", type=click.IntRange(1_000), help="So many flights, from the beginning of the file. Default: all."
)
@click.option("--diverge", is_flag=True, help="One twin differs once: it must be found, and the verdict is FAIL.")
@click.option("--out", default="build/demo", show_default=True, type=click.Path(path_type=Path))
@click.option("--keep", is_flag=True, help="Keep the directory with data and logs although it passes.")
def main(*, rows: int | None, diverge: bool, out: Path, keep: bool) -> None:
    """Two twins keep a board of departures and delays by carrier. One is away for a third of the run; the master and
    each twin are killed, the mastership is handed over, and then everything is killed at once.

    Cancelled flights and late ones have higher priorities. The single process takes the file in the order that the pair
    has selected, as its journal says, which must be a lawful one.

    Exit code 0: PASS. 1: FAIL.

    \b
    Example: python -m chaos.twins --rows 5000
    """
    texts = flights().texts[:rows]
    directory = Path(tempfile.mkdtemp(prefix="tandemq-twin-demo-"))
    story = TwinStory(directory, texts, diverge=diverge)
    failures = play(story.play())
    expected, state = single(texts, story.watched.order)
    priorities = [priority_of(text) for text in texts]
    differs_at = first_difference(texts, story.watched.order) if diverge else 0
    digest = shown(state_digest(JSON.encode(state)))
    totals = judge(story.watched, expected, digest, priorities, unhurt=diverge, first_difference=differs_at)
    if failures:
        totals = totals._replace(verdict=FAIL)
    title = f"{totals.inputs:,} flights, {totals.kills} kills, {totals.outputs:,} outputs: {totals.verdict}"
    wrong = failures or findings(totals, unhurt=diverge)
    came_to = Account(totals._asdict(), wrong, totals.verdict == PASS, totals.verdict)
    end(Place("twin", out, directory, keep), came_to, draw(story.watched, state["carriers"], title, differs_at))


if __name__ == "__main__":
    main()

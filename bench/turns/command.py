"""Runs a bench whose keys are turns: its options, one key after the other, the document and the table.

Exit code 1 when something failed, 2 for options that make no sense. A bound that is missed is said, and fails nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from bench.loops import loop_factory
from bench.machine import facts
from bench.peers.place import KEPT, BenchError, Place, Strangers, stoppable
from bench.tables import aligned
from bench.turns.figures import Figure, Missing, Single, row
from bench.turns.unused import unused

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

UNUSED = "unused"
"""The key that needs no pair."""

S = TypeVar("S", bound="DataclassInstance")
F = TypeVar("F", bound="Figure | Single | Missing")


@dataclass(frozen=True, slots=True)
class Bench(Generic[S]):
    """What is to be measured."""

    name: str
    """Of `make bench-NAME` and `build/bench/NAME.json`."""

    description: str | None
    keys: tuple[str, ...]
    size: S
    """How much; `turns` is a field of it."""

    quick: S
    measured: Callable[[Run[S]], Awaitable[None]]
    """Takes every key of the run but `unused`."""

    without: Mapping[str, str] = field(default_factory=dict)
    """Keys that have no figure, and why."""

    amounts: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Further fields of the size that have an option: the most, and the help."""


@dataclass(slots=True)
class Run(Generic[S]):
    """What was asked for, and what was found so far."""

    keys: tuple[str, ...]
    size: S
    place: Place
    found: dict[str, Figure | Single | Missing] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    """Cores that others used while a key was measured: times and rates were those of such a machine."""

    async def take(self, key: str, measure: Awaitable[F]) -> F:
        """One key."""
        strangers = Strangers()
        figure = await measure
        self.others[key] = strangers.cores()
        self.note(key, figure)
        return figure

    def note(self, key: str, figure: Figure | Single | Missing) -> None:
        """What a key is, and a line of it for who waits."""
        self.found[key] = figure
        used = f"; others used {self.others[key]:.2f} cores" if key in self.others else ""
        say(f"{'  '.join(row(key, figure))}{used}")

    def document(self) -> dict[str, object]:
        others = {key: {"others_cores": cores} for key, cores in self.others.items()}
        return {key: figure.document() | others.get(key, {}) for key, figure in self.found.items()}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(bench: Bench[S]) -> None:
    """The whole command."""
    options = _options(bench)
    size = bench.quick if options.quick else bench.size
    given = {name: value for name in _amounts(bench) if (value := getattr(options, name)) is not None}
    asked = Run(options.keys, replace(size, **given), Place(options.folder))
    asked.found |= {key: Missing(bench.without.get(key, "not measured")) for key in bench.keys}
    began, failed = time.monotonic(), ""
    try:
        with stoppable(f"bench-{bench.name}"), asked.place:
            if UNUSED in options.keys:
                asked.note(UNUSED, unused(quick=options.quick))
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(_measured(bench, asked))
    except (BenchError, RuntimeError, TimeoutError) as failure:
        failed = f"{type(failure).__name__}: {failure}"
        say(f"bench-{bench.name}: FAILED: {failed}")
    document = asked.document() | {"about": facts(), "quick": options.quick, "failed": failed}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    rows = [row(key, figure) for key, figure in asked.found.items()]
    print(aligned([["key", "value", "spread", "n", "asked for", "what"], *rows]))
    say(f"kept in {options.out}, after {time.monotonic() - began:.0f} s")
    if failed:
        raise SystemExit(1)


async def _measured(bench: Bench[S], asked: Run[S]) -> None:
    """A coroutine, as a runner asks for one."""
    await bench.measured(asked)


def _amounts(bench: Bench[S]) -> dict[str, tuple[int, str]]:
    return {"turns": (100, "of each key; default: 9"), **bench.amounts}


def _options(bench: Bench[S]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=bench.description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help=f"some of {', '.join(bench.keys)}")
    for name, (_, text) in _amounts(bench).items():
        parser.add_argument(f"--{name}", type=int, help=text)
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it runs")
    kept = KEPT / f"{bench.name}-run", KEPT / f"{bench.name}.json"
    parser.add_argument("--folder", type=Path, default=kept[0], help="where everything is while it runs")
    parser.add_argument("--out", type=Path, default=kept[1], help=f"default: build/bench/{bench.name}.json")
    options = parser.parse_args()
    options.keys = tuple(options.only.split(",")) if options.only else bench.keys
    if unknown := [key for key in options.keys if key not in bench.keys]:
        parser.error(f"--only {', '.join(unknown)}: there are {', '.join(bench.keys)}")
    for name, (most, _) in _amounts(bench).items():
        if (value := getattr(options, name)) is not None and not 1 <= value <= most:
            parser.error(f"--{name} is 1 to {most:,}")
    return options

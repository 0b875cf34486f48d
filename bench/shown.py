"""Shows what was measured and committed: `python -m bench.shown`, which is `make bench-report`.

Draws what bench/results holds and writes it into README.md and docs/PERFORMANCE.md. `--take build/bench/growth.json`,
or bench.json, failover.json, peers.json, open.json or native.json, puts a new document there first, if it is fit to be
shown.

Example: python -m bench.shown --take build/bench/growth.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import failover_report as failover
from bench import report as pair
from bench.growth import report as growth
from bench.native import report as native
from bench.peers import fit, targets
from bench.peers import open_report as loops
from bench.peers import report as peers
from bench.peers.place import ROOT

IMAGES = ROOT / "docs/img"
UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError)
"""What reading a document raises that is cut off, another kind of file, or of another version."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One kind of document: where it is kept, how it is read, judged and shown."""

    name: str
    results: Path
    page: Path
    marks: tuple[str, str]
    read: Callable[[str], Any]
    unfit: Callable[[Any], Sequence[str]]
    markdown: Callable[[Any], str]
    drawn: Callable[[Any], Mapping[str, str]]
    made_by: str

    def take(self, text: str) -> None:
        document = self.read(text)
        if reasons := self.unfit(document):
            raise SystemExit("report: not to be shown: " + "; ".join(reasons))
        # What lacks something that is shown fails here, before it takes the place of what is whole.
        self.markdown(document)
        self.drawn(document)
        self.results.parent.mkdir(exist_ok=True)
        self.results.write_text(text, encoding="utf-8")

    def show(self, images: Path = IMAGES) -> list[str]:
        """The files that it wrote."""
        document = self.read(self.results.read_text(encoding="utf-8"))
        for name, drawing in self.drawn(document).items():
            (images / name).write_text(drawing, encoding="utf-8")
        page = placed(self.page.read_text(encoding="utf-8"), self.markdown(document), self.marks)
        self.page.write_text(page, encoding="utf-8")
        return [self.page.name, *self.drawn(document)]


PEERS = Shown(
    "peers", peers.RESULTS, peers.README, (peers.BEGIN, peers.END),
    fit.read, targets.unfit, peers.markdown, peers.drawn, "make bench-peers",
)  # fmt: skip
TARGETS = Shown(
    "targets", peers.RESULTS, targets.PAGE, (targets.BEGIN, targets.END),
    fit.read, targets.unfit, targets.markdown, lambda _: {}, "make bench-peers",
)  # fmt: skip
GROWTH = Shown(
    "growth", growth.RESULTS, growth.PAGE, (growth.BEGIN, growth.END),
    growth.read, growth.unfit, growth.markdown, growth.drawn, "make bench-growth",
)  # fmt: skip
OPEN = Shown(
    "open", loops.RESULTS, loops.PAGE, (loops.BEGIN, loops.END),
    fit.read, loops.unfit, loops.markdown, loops.drawn, "make bench-open",
)  # fmt: skip
NATIVE = Shown(
    "native", native.RESULTS, native.PAGE, (native.BEGIN, native.END),
    fit.read, native.unfit, native.markdown, lambda _: {}, "make bench-native",
)  # fmt: skip
PAIR = Shown(
    "bench", pair.RESULTS, pair.README, (pair.BEGIN, pair.END),
    fit.read, pair.unfit, pair.readme, lambda _: {}, "make bench",
)  # fmt: skip
FAILOVER = Shown(
    "failover", failover.RESULTS, failover.README, (failover.BEGIN, failover.END),
    fit.read, failover.unfit, failover.markdown, lambda _: {}, "make bench-failover",
)  # fmt: skip
KINDS = (PAIR, FAILOVER, PEERS, TARGETS, OPEN, NATIVE, GROWTH)
TOLD_BY = {"bench": PAIR, "failover": FAILOVER, "native": NATIVE, "rates": OPEN}
"""By the option that only these documents have."""


def kind_of(text: str) -> Shown:
    """Growth is JSON lines, the others are one document."""
    try:
        first = fit.read(text.partition("\n")[0])
    except json.JSONDecodeError:
        first = None
    if isinstance(first, dict) and "kind" in first:
        return GROWTH
    options = fit.read(text)["options"]
    return next((kind for option, kind in TOLD_BY.items() if options.get(option)), PEERS)


def placed(page: str, part: str, marks: tuple[str, str]) -> str:
    """The page with what stands between the two marks replaced."""
    head, begin, rest = page.partition(marks[0])
    _, end, tail = rest.partition(marks[1])
    if not begin or not end:
        raise SystemExit(f"report: the page has no {marks[0]} ... {marks[1]}")
    return f"{head}{begin}\n{part}\n{end}{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=Path, help="a document to show from now on")
    options = parser.parse_args()
    if options.take:
        try:
            text = options.take.read_text(encoding="utf-8", errors="replace")
        except OSError as failure:
            raise SystemExit(f"report: {options.take}: {failure.strerror}; measure first") from None
        try:
            kind_of(text).take(text)
        except UNREADABLE as failure:
            raise SystemExit(
                f"report: {options.take} is no document of bench-peers, bench-open, bench-native, bench-growth, "
                f"bench or bench-failover, or one of another version: {failure!r}; measure again"
            ) from None
    shown = [kind for kind in KINDS if kind.results.exists()]
    if not shown:
        raise SystemExit(
            "report: nothing is committed yet; on a quiet machine: `make bench-peers` or `make bench-growth`, then "
            "`make bench-report TAKE=build/bench/peers.json` or TAKE=build/bench/growth.json"
        )
    for kind in shown:
        try:
            print(f"{kind.name}: {', '.join(kind.show())}")
        except UNREADABLE as failure:
            where = kind.results.relative_to(ROOT)
            raise SystemExit(f"report: {where} is not whole: {failure!r}; `git checkout {where}`, or measure") from None


if __name__ == "__main__":
    main()

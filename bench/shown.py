"""Shows what was measured and committed: `python -m bench.shown`, which is `make bench-report`.

Draws what bench/results holds and writes it into README.md and docs/PERFORMANCE.md. `--take build/bench/growth.json`,
or another document of a benchmark, puts that there first, if it is fit to be shown.

Example: python -m bench.shown --take build/bench/growth.json
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import failover_report as failover
from bench import report as pair
from bench.budget import tables as budget
from bench.check import Plan, unfit
from bench.document import Document, read
from bench.growth import report as growth
from bench.levers import report as levers
from bench.native import report as native
from bench.peers import open_report as loops
from bench.peers import report as peers
from bench.peers import targets
from bench.tables import PERFORMANCE, README, ROOT, placed

RESULTS, IMAGES = ROOT / "bench/results", ROOT / "docs/img"
UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError)
"""What reading a document raises that is cut off, another kind of file, or of another version."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A part of a page: which document it is of, and how that is judged and shown."""

    name: str
    page: Path
    plan: Plan
    markdown: Callable[[Document], str]
    drawn: Callable[[Document], Mapping[str, str]] = lambda _: {}
    of: str = ""
    """The benchmark, where another part of a page shows it too."""

    @property
    def benchmark(self) -> str:
        return self.of or self.name

    def kept(self, results: Path) -> Path:
        return results / f"{self.benchmark}.json"

    def show(self, document: Document, page: Path, images: Path) -> list[str]:
        """The files that it wrote."""
        text = placed(page.read_text(encoding="utf-8"), self.markdown(document), self.name)
        drawings = self.drawn(document)
        page.write_text(text, encoding="utf-8")
        for name, drawing in drawings.items():
            (images / name).write_text(drawing, encoding="utf-8")
        return [page.name, *drawings]


KINDS = (
    Shown("bench", README, pair.PLAN, pair.readme),
    Shown("failover", README, failover.PLAN, failover.markdown),
    Shown("peers", README, peers.PLAN, peers.markdown, peers.drawn),
    Shown("targets", PERFORMANCE, targets.PLAN, targets.markdown, of="peers"),
    Shown("open", PERFORMANCE, loops.PLAN, loops.markdown, loops.drawn),
    Shown("levers", PERFORMANCE, levers.PLAN, levers.markdown),
    Shown("native", PERFORMANCE, native.PLAN, native.markdown),
    Shown("growth", PERFORMANCE, growth.PLAN, growth.markdown, growth.drawn),
    Shown("budget", PERFORMANCE, budget.PLAN, budget.markdown),
)


def take(text: str, results: Path = RESULTS) -> None:
    """Puts a document among the results, if every part of a page that shows it may."""
    document = read(text)
    kinds = [kind for kind in KINDS if kind.benchmark == document.benchmark]
    if not kinds:
        raise ValueError(f"{document.benchmark} is shown nowhere")
    reasons = [why for kind in kinds for why in unfit(document, kind.plan)]
    if reasons:
        raise SystemExit("report: not to be shown: " + "; ".join(dict.fromkeys(reasons)))
    for kind in kinds:  # what lacks something that is shown fails here, before it takes the place of what is whole
        kind.markdown(document)
        kind.drawn(document)
    document.write(kinds[0].kept(results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=Path, help="a document to show from now on")
    options = parser.parse_args()
    if options.take:
        try:
            take(options.take.read_text(encoding="utf-8", errors="replace"), RESULTS)
        except OSError as failure:
            raise SystemExit(f"report: {options.take}: {failure.strerror}; measure first") from None
        except UNREADABLE as failure:
            raise SystemExit(
                f"report: {options.take} is no document of a benchmark, or one of another version: {failure!r}; "
                "measure again"
            ) from None
    shown = [kind for kind in KINDS if kind.kept(RESULTS).exists()]
    if not shown:
        raise SystemExit(
            "report: nothing is committed yet; on a quiet machine: `make bench-peers` or `make bench-growth`, then "
            "`make bench-report TAKE=build/bench/peers.json` or TAKE=build/bench/growth.json"
        )
    for kind in shown:
        path = kind.kept(RESULTS)
        try:
            print(f"{kind.name}: {', '.join(kind.show(read(path.read_text(encoding='utf-8')), kind.page, IMAGES))}")
        except UNREADABLE as failure:
            where = f"bench/results/{path.name}"
            raise SystemExit(f"report: {where} is not whole: {failure!r}; `git checkout {where}`, or measure") from None


if __name__ == "__main__":
    main()

"""Growth: what is varied, how cost becomes a ratio, what is refused or not shown, that a drawing is of the figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.growth.faults import HANDOFF, KILL, LABELS, NONE, not_as_told
from bench.growth.figures import cost, growths, judged, most_foreign, of_runs, point_result, set_aside, strangers
from bench.growth.fit import name_of, unfit
from bench.growth.plan import OPEN_RATES, curves, shrunk
from bench.growth.report import BEGIN, END, drawn, ended, flatness, markdown, read
from bench.growth.run import in_turns
from bench.peers.plots import Curve
from bench.peers.plots import curves as plotted
from bench.shown import GROWTH, OPEN, PEERS, kind_of

GOOD_ACCOUNT = {"sent": 10, "received": 10, "lost": 0, "again": 0, "corrupt": 0, "unknown": 0}
SYNCS = {"a": 100, "b": 101, "messages": 100}
ABOUT = {
    "commit": "abc", "cpu": "a cpu", "cores": 2, "kernel": "6", "python": "3.11", "grpcio": "1", "lmdb": "3",
    "time": "2026-01-01T00:00:00", "share": 1.0,
}  # fmt: skip


def turn(master: float, replica: float = 1.0, client: float = 1.0, messages: int = 100) -> dict[str, Any]:
    used = {"master": master * messages, "replica": replica * messages, "client": client * messages}
    return {"messages": messages, "seconds": 0.001, "rest_s": 0.1, "used_us": used, "foreign_cores": 0.1}


def point(label: str, turns: list[dict[str, Any]], first: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    line = {
        "kind": "point", "curve": "depth", "title": "Depth", "axis": "messages", "flat": True, "label": label, "x": 0,
        **point_result(turns, first), "messages": 100, "load_share": {"client": 0.4}, **strangers(turns),
        "account": dict(GOOD_ACCOUNT), "settings_wrong": [], "syncs": dict(SYNCS), "syncs_short": "", **more,
    }  # fmt: skip
    return {**judged(line), **ABOUT}


FIRST = [turn(4.0) for _ in range(5)]
DEEP = [turn(value) for value in (4.0, 4.0, 4.0, 4.0, 9.0)]


def opened(run: int, **more: Any) -> dict[str, Any]:
    times = {"p50_ms": 1.0 + run, "p90_ms": 2.0, "p99_ms": 3.0, "p999_ms": 4.0, "max_ms": 5.0}
    return {
        **times, "late_p50_ms": 0.1, "late_p99_ms": 0.2, "value": 999.0, "rate": 1000.0, "size": 1024,
        "cpu_us": {"servers": 5.0}, "foreign_cores": 0.1, "load_share": {"producer": 0.2}, "account": GOOD_ACCOUNT,
        "syncs": SYNCS, "refused": [], "remarks": [], **more,
    }  # fmt: skip


def whole() -> list[dict[str, Any]]:
    """Lines that are fit to be shown."""
    lines = [
        point(each.label, DEEP if (curve.name, each.depth) == ("depth", 1_000_000) else FIRST, FIRST, curve=curve.name)
        for curve in curves()
        for each in curve.points
    ]
    runs = [opened(run) for run in range(3)]
    named = [("open", f"{rate:,.0f}/s") for rate in OPEN_RATES] + [("fault", label) for label in LABELS.values()]
    return lines + [{**of_runs({"kind": kind, "label": label, "x": 1.0}, runs, runs), **ABOUT} for kind, label in named]


def with_line(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The same with that line in the place of the one of its name."""
    return [line if name_of(one) == name_of(line) else one for one in whole()]


def document(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in (*lines, ended(len(lines))))


# -- what is varied ----------------------------------------------------------------------------------------------------


def test_the_plan_covers_what_is_asked() -> None:
    found = {curve.name: curve for curve in curves(deep=True)}
    assert [point.depth for point in found["depth"].points][::3] == [0, 1_000_000]
    assert found["depth-small"].points[-1].depth == 10_000_000
    assert max(point.size for point in found["depth-small"].points) == 100
    assert [point.queues for point in found["queues"].points] == [1, 100, 10_000]
    assert [point.queues for point in found["queues-visited"].points][::4] == [1, 10_000]
    assert [point.producers for point in found["producers"].points] == [1, 8, 64]
    assert [point.size for point in found["payload"].points] == [100, 1 << 10, 16 << 10, 1 << 20]
    assert {point.through for point in found["through"].points} == {"master", "replica"}
    assert curves()[1].points[-1].depth == 1_000_000


def test_the_points_of_a_curve_differ_in_one_thing() -> None:
    for curve in curves(deep=True):
        if curve.name.startswith("depth"):
            assert len({point.depth + point.before for point in curve.points}) == 1, "depth would be mistaken for age"
        if curve.name != "payload":
            assert len({(point.batch, point.size, point.turn) for point in curve.points}) == 1
        assert all(point.unanswered >= point.batch * point.producers for point in curve.points)


@pytest.mark.parametrize("share", [0.0001, 0.01])
def test_a_small_share_keeps_a_message_in_every_queue(share: float) -> None:
    for curve in curves(deep=True):
        for small, large in zip(shrunk(curve, share).points, curve.points, strict=True):
            assert small.turn >= min(large.turn, small.batch)
            assert small.turn <= large.turn
            assert small.depth >= 10 * small.queues or not small.calls
            assert (small.depth > 0) == (large.depth > 0)


# -- cost --------------------------------------------------------------------------------------------------------------


def test_cost_counts_every_turn_with_its_share() -> None:
    """What happens in one turn of many, as a checkpoint does, is not dropped as an outlier."""
    assert cost([turn(4.0, messages=100), turn(9.0, messages=300)])["master"] == pytest.approx(7.75)
    found = point_result(DEEP, FIRST)
    assert found["us"]["servers"]["mean"] == 6.0
    assert found["us"]["servers"]["median"] == 5.0
    assert found["ratio"]["servers"]["mean"] == 1.2
    assert found["ratio"]["servers"]["runs"] == [1.0, 1.0, 1.0, 1.0, 2.0]
    assert found["us"]["cpu"]["mean"] == 7.0


def test_what_grows_is_told() -> None:
    """Against the cheapest smaller point, not the first: what is received at once comes in small pieces, and costs."""
    points = [point(str(place), [turn(value)] * 5, FIRST) for place, value in enumerate((9.0, 4.0, 5.0, 5.1, 3.0))]
    assert growths(points) == [("3", 1.22)]
    assert flatness(points) == "More than 20% above the cheapest smaller point: 3 (1.22x)."
    assert flatness(points[:3]) == "No point costs the members more than 20% above a smaller one."


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"account": {**GOOD_ACCOUNT, "lost": 1}}, "1 messages lost"),
        ({"account": {**GOOD_ACCOUNT, "corrupt": 1}}, "1 messages corrupt"),
        ({"account": {}}, "nobody counted"),
        ({"syncs_short": "100 syncs for 100 messages, 2 copies promised"}, "2 copies promised"),
        ({"settings_wrong": ["data of b is 'STALE', not 'IN_SYNC'"]}, "STALE"),
    ],
)
def test_a_point_is_refused_and_stands_in_no_figure(change: dict[str, Any], said: str) -> None:
    bad = point("77", [turn(77.7)] * 5, FIRST, **change)
    assert said in bad["refused"][0]
    lines = [point("0", FIRST, FIRST), bad]
    assert f"refused: {bad['refused'][0]}" in markdown(lines)
    assert "77.7" not in markdown(lines) + "".join(drawn(lines).values())


def test_a_point_that_says_it_is_not_refused_is_not_believed() -> None:
    robbed = {**point("0", FIRST, FIRST, account={**GOOD_ACCOUNT, "lost": 1, "received": 9}), "refused": []}
    assert unfit([robbed, *whole()[1:]]) == ["not refused, although 1 messages lost: depth 0"]


def opened_again(**more: Any) -> list[str]:
    """What is said of lines with such a change to an open loop."""
    return unfit(with_line({**next(line for line in whole() if name_of(line) == f"fault {KILL}"), **more}))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"account": {**GOOD_ACCOUNT, "lost": 1, "received": 9}}, "1 messages lost"),
        ({"account": {}}, "nobody counted what came"),
        ({"syncs": None}, "nobody counted syncs"),
        ({"syncs": {"a": 100, "b": 0, "messages": 100}}, "100 syncs for 100 messages, 2 copies promised (a 100, b 0)"),
        ({"load_share": {"producer": 0.9}}, "the load was the bottleneck: it used 90% of a core"),
    ],
)
def test_an_open_loop_that_says_it_is_not_refused_is_not_believed(more: dict[str, Any], said: str) -> None:
    reason, *again = opened_again(**more)
    assert reason.startswith(f"not refused, although {said}")
    assert reason.endswith(f": fault {KILL}")
    assert again == []


def test_an_open_loop_of_which_a_run_was_refused_may_say_what_was_lost_in_it() -> None:
    runs = [
        opened(0),
        opened(1, refused=["1 messages lost"], account={**GOOD_ACCOUNT, "lost": 1, "received": 9}),
        opened(2),
        opened(3),
    ]
    assert unfit(with_line({**of_runs({"kind": "fault", "label": KILL, "x": 1}, runs, runs), **ABOUT})) == []


def test_an_open_loop_whose_load_was_late_is_not_believed() -> None:
    runs = [opened(run, late_p50_ms=2.0 * run) for run in range(3)]
    line = {**of_runs({"kind": "open", "label": "1,000/s", "x": 1}, runs, runs), **ABOUT}
    (reason,) = unfit(with_line(line))
    late = [f"the load was the bottleneck: p50 {late:.2f} ms late of {took:.2f} ms" for late, took in ((2, 2), (4, 3))]
    assert reason == f"not refused, although {late[0]}: open 1,000/s; {late[1]}: open 1,000/s"


def test_figures_of_a_line_must_follow_from_its_runs() -> None:
    def said(change: Callable[[dict[str, Any]], object]) -> list[str]:
        lines = whole()
        change(lines[3])
        return unfit(lines)

    assert said(lambda line: line["us"]["servers"].update(mean=5.0)) == [
        "the mean of servers is not that of the turns: depth 1,000,000",
        "the ratio of servers is not that of the means: depth 1,000,000",
    ]
    assert said(lambda line: line["ratio"]["servers"].update(mean=1.0)) == [
        "the ratio of servers is not that of the means: depth 1,000,000"
    ]
    assert said(lambda line: line["ratio"]["servers"].update(max=1.1)) == [
        "median and range are not those of the runs: depth 1,000,000"
    ]
    assert said(lambda line: line["account"].update(received=9)) == ["the account does not add up: depth 1,000,000"]
    assert said(lambda line: line["foreign_cores_of"].pop()) == [
        "what others used is not that of each run: depth 1,000,000"
    ]
    assert said(lambda line: line["load_share"].update(client=0.9)) == [
        "without the remark 'bound by the client (90% of a core)': depth 1,000,000"
    ]
    assert said(lambda line: line["syncs"].update(b=0)) == [
        "not refused, although 100 syncs for 100 messages, 2 copies promised (a 100, b 0): depth 1,000,000"
    ]


def test_a_load_that_sets_the_pace_is_said_to() -> None:
    assert point("0", FIRST, FIRST, load_share={"client": 0.9})["remarks"] == ["bound by the client (90% of a core)"]


def test_one_noisy_turn_of_many_is_not_averaged_away() -> None:
    turns = [{**turn(4.0), "foreign_cores": cores} for cores in (0.0, 0.0, 0.0, 0.9, 0.0)]
    lines = [point("0", turns, FIRST), *whole()[1:]]
    assert lines[0]["remarks"] == ["noisy: strangers used 0.90 cores"]
    assert unfit(lines) == ["1 of 31 figures while others used the machine: depth 0"]
    assert "| 1.00 (1.00 to 1.00) | 0.90 | noisy: strangers used 0.90 cores |" in markdown(lines)


def test_a_document_with_the_mean_over_turns_is_not_taken_and_says_so_where_it_is_shown() -> None:
    lines = whole()
    del lines[0]["foreign_cores_of"]
    reason = "1 points tell what others used in the mean over their turns, not in the worst"
    assert unfit(lines) == [reason]
    assert reason in markdown(lines)
    assert "| 1.00 (1.00 to 1.00) | 0.10 in the mean |" in markdown(lines)


class Turning:
    """A point whose turns are known before."""

    def __init__(self, *cores: float) -> None:
        self._left = [{**turn(4.0), "value": float(number), "foreign_cores": each} for number, each in enumerate(cores)]
        self.turns: list[dict[str, Any]] = []

    def turn(self) -> dict[str, Any]:
        return self._left.pop(0)


def test_a_round_with_a_noisy_turn_is_taken_anew_by_all_points() -> None:
    """One point alone would have had more traffic than the others."""
    points, pauses = [Turning(0.9, 0.1, 0.1), Turning(0.2, 0.1, 0.1)], list[float]()
    in_turns(points, 5, kept=True, pause=pauses.append)
    assert [[each["value"] for each in one.turns] for one in points] == [[1.0], [1.0]]
    assert len(pauses) == 1
    in_turns(points, 5, kept=True, pause=pauses.append)
    found = [set_aside(one.turns) for one in points]
    assert found[0] == {"set_aside": 1, "set_aside_of": [{"value": 0.0, "foreign_cores": 0.9}]}
    assert found[1] == {"set_aside": 1, "set_aside_of": [{"value": 0.0, "foreign_cores": 0.2}]}
    assert set_aside(points[0].turns[1:]) == {"set_aside": 0}


def test_a_warm_round_is_taken_once_and_counts_nowhere() -> None:
    points = [Turning(0.9, 0.1)]
    in_turns(points, 5, kept=False)
    assert points[0].turns == []
    assert points[0].turn()["value"] == 1.0


# -- open loops and faults ---------------------------------------------------------------------------------------------


def test_a_refused_run_is_in_no_figure_and_is_told() -> None:
    runs = [opened(0), opened(1, p50_ms=77.0, refused=["3 messages lost"]), opened(2, remarks=["noisy: strangers"])]
    line = of_runs({"kind": "open"}, runs, runs)
    assert line["times"]["p50_ms"]["runs"] == [1.0, 3.0]
    assert line["remarks"] == ["1 of 3 runs refused: 3 messages lost", "noisy"]
    assert line["refused"] == []
    every = [{**run, "refused": ["lost"]} for run in runs]
    assert of_runs({"kind": "open"}, every, every)["refused"] == ["lost"]
    assert of_runs({"kind": "open"}, every, every)["times"] == {}


@pytest.mark.parametrize(
    ("fault", "after", "wrong"),
    [(NONE, "a", False), (NONE, "b", True), (KILL, "b", False), (KILL, "a", True), (HANDOFF, "a", True)],
)
def test_a_run_without_the_fault_of_its_name_is_refused(fault: str, after: str, wrong: bool) -> None:
    assert bool(not_as_told(fault, "a", after)) is wrong


def test_what_others_used_is_told_of_the_worst_run() -> None:
    runs = [opened(0, foreign_cores=0.0), opened(1, foreign_cores=0.9), opened(2, foreign_cores=0.0)]
    line = {**of_runs({"kind": "fault", "label": KILL, "x": 1}, runs, runs), **ABOUT}
    assert line["foreign_cores_of"] == [0.0, 0.9, 0.0]
    assert most_foreign(line) == 0.9
    assert unfit(with_line(line)) == [f"1 of 31 figures while others used the machine: fault {KILL}"]
    assert "| 4 (4 to 4) | 5 (5 to 5) | 0.2 (0.2 to 0.2) | 0.90 |" in markdown(with_line(line))


def test_what_was_not_measured_is_not_shown_as_quiet() -> None:
    """Documents once had 0.0 for a kill, after which nobody had counted."""
    runs = [opened(run, foreign_cores=0.0, cpu_us={}) for run in range(3)]
    line = {**of_runs({"kind": "fault", "label": KILL, "x": 1}, runs, runs), **ABOUT}
    assert most_foreign(line) == 0.0
    del line["foreign_cores_of"]
    assert most_foreign(line) is None
    reason = f"what others used was not measured of fault {KILL}"
    assert unfit(with_line(line)) == [reason]
    text = markdown(with_line(line))
    assert "| 0.2 (0.2 to 0.2) | not measured |" in text
    assert f"older than some of what is asked of one today: {reason}." in text


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_lines_that_are_fit_are_shown_with_every_figure() -> None:
    lines = read(document(whole()))
    assert unfit(lines) == []
    text = markdown(lines)
    assert "| 1,000,000 | 5 | 1 | 1 | 7 | 10 | 1.20 (1.00 to 2.00) |" in text
    assert "| 1,000/s | 999 (999 to 999) | 2 (1 to 3) |" in text
    assert {f"growth-{curve.name}.svg" for curve in curves()} | {"growth-open.svg"} == set(drawn(lines))
    assert all(f"(img/{name})" in text for name in drawn(lines))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"commit": "abc-dirty"}, "in no commit"),
        ({"commit": "unknown"}, "in no commit"),
        ({"share": 0.1}, "fewer messages"),
        ({"foreign_cores": 0.5, "remarks": ["noisy: strangers used 0.50 cores"]}, "while others used the machine"),
    ],
)
def test_lines_that_are_not_fit(change: dict[str, Any], said: str) -> None:
    (reason,) = unfit([{**line, **change} for line in whole()])
    assert said in reason


def test_lines_with_a_part_that_failed_or_is_missing_or_short_are_not_fit() -> None:
    failed = {"kind": "failed", "curve": "queues", "label": "queues", "why": "no\nmore", "refused": ["no"], **ABOUT}
    assert unfit([*whole(), failed]) == ["queues failed: no"]
    assert unfit([line for line in whole() if line.get("label") != "16 KiB"]) == ["without payload 16 KiB"]
    assert unfit([*whole(), whole()[1]]) == ["more than one figure of depth 10,000"]
    few = [point("0", FIRST[:4], FIRST[:4]), *whole()[1:]]
    assert "1 figures of fewer than 5 turns" in unfit(few)[0]


def test_a_document_is_known_by_what_it_holds() -> None:
    assert kind_of(json.dumps(whole()[0]) + "\n") is GROWTH
    assert kind_of('{\n "options": {"rates": []}\n}\n') is PEERS
    assert kind_of('{\n "options": {"rates": [1000.0]}\n}\n') is OPEN
    with pytest.raises(ValueError, match="Expecting"):
        PEERS.take("no document")
    page = GROWTH.page.read_text(encoding="utf-8")
    assert page.index(BEGIN) < page.index(END)


def test_a_document_that_is_not_fit_is_not_taken(tmp_path: Path) -> None:
    assert not tmp_path.joinpath("x").exists()
    with pytest.raises(SystemExit, match="fewer messages"):
        GROWTH.take(document([{**line, "share": 0.5} for line in whole()]))


def test_what_is_committed_is_whole_and_believed() -> None:
    assert unfit(read(GROWTH.results.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("kept", [0, 1, -1, -2])
def test_a_document_that_is_cut_off_at_the_end_of_a_line_is_refused(kept: int) -> None:
    """Each line is JSON of its own: a curve without its last points would be taken for a flat one."""
    lines = document(whole()).splitlines(keepends=True)
    with pytest.raises(ValueError, match="its last line does not say how many there are"):
        read("".join(lines[:kept]))


def test_a_document_that_lacks_a_line_in_the_middle_is_refused() -> None:
    first, _, *rest = document(whole()).splitlines(keepends=True)
    with pytest.raises(ValueError, match=rf"{len(rest)} lines, and {len(rest) + 1} were written"):
        read("".join([first, *rest]))


def test_a_curve_is_drawn_to_scale() -> None:
    line = Curve("cost & all", (1.0, 4.0), ((1.0, 1.0), (3.0, 5.0)))
    drawing = plotted("title", "axis", ["few", "many"], [line], band=(0.8, 1.2))
    assert "cost &amp; all" in drawing
    assert drawing.count("<circle") == 2
    # Ticks 0 to 5, 260 high, its bottom at 324: 1 is a fifth of it, 4 four fifths.
    assert 'cy="272.0"' in drawing
    assert 'cy="116.0"' in drawing
    assert 'y1="168.0" x2="870.0" y2="64.0"' in drawing, "the range of the second"
    assert 'height="20.8" fill="#e8f2ea"' in drawing
    decades = plotted(
        "title", "axis", ["a", "b"], [Curve("x", (1.0, 100.0), ((1.0, 1.0), (100.0, 100.0)))], decades=True
    )
    assert ">1,000<" not in decades
    assert 'cy="324.0"' in decades
    assert 'cy="64.0"' in decades
    assert plotted("title", "axis", [], [])

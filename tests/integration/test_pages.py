"""Pages of drills and campaigns, opened in a real browser: what a reader sees of them, at a desk and on a telephone,
light and dark. Pictures are kept in build/pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from chaos import campaign
from chaos.fork_server import ForkServer
from pipeline import report
from pipeline.outcome import DONE, Mark, Plot, Table
from pipeline.outcome import Outcome as Job
from tests.integration.home import Home, facts
from tests.support import looking
from tests.support.browser import PICTURES, Browser, browser
from tests.support.long_runs import alternating_kills

WINDOWS = [(width, scheme) for width in (1280, 360) for scheme in ("light", "dark")]
pytestmark = pytest.mark.process


class Played(NamedTuple):
    """What `tandemq drill run kill-master` left, on a pair of `tandemq dev`: each member was killed once."""

    home: Home
    report: Path
    refused: str
    said: str
    queues: list[object]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, commands: ForkServer) -> Played:
    home = Home(tmp_path_factory.mktemp("dev"), commands)
    with home.dev():
        refused = home.run("drill", "run", "partition-peer", code=2)
        said = home.run("drill", "run", "kill-master", "--repeat", "2", "--report-dir", "report")
        return Played(home, home.folder / "report", refused, said, home.queues())


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


def test_a_drill_on_the_pair_of_dev_has_a_verdict_and_a_report(played: Played) -> None:
    assert "tandemq dev --chaos" in played.refused
    assert "nothing was hurt" in played.refused
    assert "PASS  drill kill-master" in played.said
    assert played.queues == []  # it took its queue away
    found = facts(played.report)
    assert found["verdict"] == "pass"
    assert found["faults"] == {"kill": {"had_effect": 2, "made": 2}}
    assert {path.name for path in played.report.iterdir()} == {
        *("report.html", "report.md", "junit.xml", "journal.jsonl", "result.json")
    }


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_a_report_is_good_to_look_at(played: Played, tab: Browser, width: int, scheme: str) -> None:
    shown = tab.show(played.report / "report.html", width, scheme, PICTURES / f"drill-{width}-{scheme}.png")
    assert looking.faults(shown) == []
    assert shown.facts["verdict"]["text"] == "pass"
    [picture] = shown.facts["pictures"]
    lanes = {lane["name"]: lane for lane in picture["lanes"]}
    assert list(lanes) == ["member a", "member b", "kill", "consumer", "impatient", "producer 0", "producer 1"]
    for name in ("member a", "member b"):  # each was killed, and each was master
        assert {"MASTER", "REPLICA", "GONE"} <= {bar["kind"] for bar in lanes[name]["bars"]}
    assert len(lanes["kill"]["bars"]) == len(picture["bands"]) == 2


def test_a_fault_stands_where_the_journal_has_it(played: Played, tab: Browser) -> None:
    events = [json.loads(line) for line in (played.report / "journal.jsonl").read_text().splitlines()]
    shown = tab.show(played.report / "report.html", 1280, "light").facts
    zero, second = looking.seconds(shown)
    [bars] = [lane["bars"] for lane in shown["pictures"][0]["lanes"] if lane["kind"] == "fault"]
    for place, event in ((0, "fault"), (2, "healed")):
        drawn = [(bar["box"][place] - zero) / second for bar in bars]
        assert drawn == pytest.approx([each["t"] for each in events if each["event"] == event], abs=0.1)


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_three_minutes_of_faults_are_good_to_look_at(tab: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    """As long as a configuration of `make chaos`, with faults of two kinds that overlap, and one that never healed."""
    result = alternating_kills(rounds=36)
    campaign.write_page(tmp_path / "timeline.html", result)
    shown = tab.show(tmp_path / "timeline.html", width, scheme, PICTURES / f"long-{width}-{scheme}.png")
    assert looking.faults(shown) == []
    assert shown.facts["verdict"]["text"] == result.verdict
    assert (tmp_path / "timeline.html").stat().st_size < 1_000_000


@pytest.mark.parametrize(("width", "scheme"), [(1000, "light"), (1000, "dark"), (360, "light")])
def test_the_report_of_a_job_is_good_to_look_at(tab: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    """With a table as broad and as long as statistics have, a kill and takeovers."""
    columns = [f"a_column_of_statistics_{at}" for at in range(17)]
    windows = [dict.fromkeys(columns, 1_234_567) | {"queue": "orders.eu"} for _ in range(80)]
    line = [(float(at), float(at % 13)) for at in range(100)]
    marks = [Mark(30.0, "kill -9 a", kill=True), Mark(31.0, "epoch 2"), Mark(70.0, "epoch 3")]
    job = Job("stats", DONE, "80 windows.", [Table("windows", windows)], [Plot("rate", "/s", {"orders": line}, marks)])
    shown = tab.show(report.write(tmp_path, job), width, scheme, PICTURES / f"job-{width}-{scheme}.png")
    assert looking.without_timeline(shown) == []
    [plot] = shown.facts["pictures"]
    assert {"kill -9 a", "epoch 3"} <= {each["text"] for each in plot["texts"]}


PLANTED = {
    "the console has 'error: lost'": "<script>console.error('lost')</script>",
    "the console has 'exception": "<script>undefined.x</script>",
    "it asks for file:///elsewhere.png": '<img src="file:///elsewhere.png">',
    "it is 1400 wide in a window of 1280": '<div style="width:1400px;position:absolute;left:0">wide</div>',
    "no verdict is to be seen": "<style>#verdict{display:none}</style>",
    "below the fold": "<style>h1{margin-top:900px}</style>",
    "has a contrast of": "<style>td{color:#ccc}</style>",
    "'acknowledged' has letters of 6.0": "<style>td{font-size:6px}</style>",
    "2 timelines are to be seen": "<style>svg.narrow{display:block}</style>",
    "0 timelines are to be seen": "<style>svg.wide{display:none}</style>",
    "is cut off": "<style>.name{transform:translateX(-40px)}</style>",
    "'member a' and 'member b' overlap": "<style>[data-name='member b']{transform:translateY(-28px)}</style>",
    "1 lanes of the kind member": "<style>[data-name='member b']{display:none}</style>",
    "0 lanes of the kind client": "<style>[data-kind=client]{display:none}</style>",
    "lane kill is empty": "<style>.fault{display:none}</style>",
    "no band for 'kill a": "<style>.band{transform:translateX(9px)}</style>",
    "no rate is drawn": "<style>.rate{display:none}</style>",
    "no median is drawn": "<style>.median{display:none}</style>",
    "the rate is flat": "<style>.rate{transform:scaleY(.01)}</style>",
}


@pytest.mark.parametrize("fault", list(PLANTED))
def test_what_is_wrong_with_a_page_is_found(tab: Browser, tmp_path: Path, fault: str) -> None:
    """The judge is tested as well: each of these is a page with one thing spoilt."""
    campaign.write_page(tmp_path / "timeline.html", alternating_kills(rounds=3))
    page = (tmp_path / "timeline.html").read_text(encoding="utf-8")
    (tmp_path / "spoilt.html").write_text(page.replace("</body>", f"{PLANTED[fault]}</body>"), encoding="utf-8")
    assert any(fault in each for each in looking.faults(tab.show(tmp_path / "spoilt.html", 1280, "light")))


def test_a_point_on_the_axis_lies_in_its_band() -> None:
    """A median of a millisecond or less is drawn on the axis, and half of the point below it."""
    reaches, short = [5.0, 0.0, 20.0, 100.0], [5.0, 0.0, 20.0, 80.0]
    assert looking.bands({"median": [[10.0, 98.3, 13.4, 101.7]], "bands": [reaches, short]}) == [reaches]

"""Faults on real processes with the real Toxiproxy between them: the promise holds, and a planted bug is found."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from chaos import campaign, history_file
from chaos.faults import Fault
from chaos.scenario import Configuration, Result, Round, run
from tests.support import looking
from tests.support.browser import PICTURES, browser
from tests.support.toxiproxy import toxiproxy_program

pytestmark = pytest.mark.process

SECONDS = 20.0


@pytest.fixture(scope="module", params=["one-way-out", "slow-and-kill"])
def result(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Of twenty seconds of one configuration."""
    configuration = campaign.BY_NAME[request.param]
    directory = tmp_path_factory.mktemp(configuration.name)
    return asyncio.run(run(configuration, directory, toxiproxy_program(), SECONDS, seed=1))


def test_a_configuration_of_the_campaign_holds(result: Result) -> None:
    assert (result.broken, result.invalid) == ({}, [])
    assert result.account.acknowledged > 30 * SECONDS
    assert set(result.faults) == set(campaign.BY_NAME[result.name].kinds)
    events = list(history_file.events(result.history, result.struck))
    invoked = [event for event in events if event["event"] == "invoke"]
    ended = [event for event in events if event["event"] in ("ok", "fail", "unknown")]
    assert len(invoked) == len(ended) == result.account.operations


def test_its_timeline_is_good_to_look_at(result: Result, tmp_path: Path) -> None:
    campaign.write_page(tmp_path / "timeline.html", result)
    with browser(tmp_path) as tab:
        for width, scheme in ((1280, "light"), (360, "dark")):
            picture = PICTURES / f"campaign-{result.name}-{width}-{scheme}.png"
            shown = tab.show(tmp_path / "timeline.html", width, scheme, picture)
            assert looking.faults(shown) == []
            assert shown.facts["verdict"]["text"] == "held"
            lanes = [lane["name"] for lane in shown.facts["pictures"][0]["lanes"] if lane["kind"] == "fault"]
            assert set(lanes) == set(result.faults)


@pytest.mark.long
async def test_a_planted_bug_is_found(tmp_path: Path) -> None:
    bug, name = campaign.PLANTED
    result = await run(campaign.BY_NAME[name], tmp_path, toxiproxy_program(), SECONDS, seed=1, bug=bug)
    assert result.verdict == "BROKEN"
    assert result.account.lost > 0
    assert "nothing_acknowledged_is_lost" in result.broken


@pytest.mark.long
async def test_a_fault_that_does_not_bite_makes_a_run_invalid(tmp_path: Path) -> None:
    gentle = Configuration("gentle", (Round((Fault("freeze", for_s=0.05),)),))
    result = await run(gentle, tmp_path, toxiproxy_program(), 3.0, seed=1)
    assert (result.verdict, result.broken) == ("INVALID", {})
    assert any("no freeze" in line for line in result.invalid)


@pytest.mark.long
def test_the_campaign_writes_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toxiproxy_program()
    arguments = ["--seconds", "5", "--only", "kill-replica", "--keep", "--out", str(tmp_path)]
    assert campaign.main(arguments) == campaign.HELD
    facts = json.loads((tmp_path / "campaign.json").read_text())
    assert facts["total"]["lost"] == facts["total"]["duplicates"] == facts["total"]["order_breaks"] == 0
    assert "| kill-replica | held |" in (tmp_path / "campaign.md").read_text()
    assert (tmp_path / "kill-replica" / "history.jsonl").stat().st_size > 0
    assert "Campaign kill-replica" in (tmp_path / "kill-replica" / "timeline.html").read_text()
    assert "kill" in capsys.readouterr().out

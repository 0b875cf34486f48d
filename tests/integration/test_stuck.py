"""A run that does not end says what did not, and leaves what is known of it where it says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from chaos import campaign
from chaos.history import UNKNOWN
from chaos.workload import BATCHES_UNANSWERED_MAX, Workload
from tests.integration.support import stopped_at_end
from tests.support.clusters import quick
from tests.support.toxiproxy import toxiproxy_program
from tests.support.until import until

pytestmark = pytest.mark.process

STANDS_S = 0.5  # longer than the impatient client waits
TIMEOUT_S = 20.0  # longer than that on any machine: what still waits has not failed


async def test_a_load_that_does_not_end_names_the_clients_that_still_wait(tmp_path: Path) -> None:
    async with stopped_at_end(quick(tmp_path)) as cluster:
        await cluster.start()
        workload = Workload(cluster, patience_s=0.2, timeout_s=TIMEOUT_S)

        async def both_wait() -> bool:
            # Not "one is unanswered": its answer may have been on its way before the members stood still.
            return workload.unanswered[: workload.producers] == [BATCHES_UNANSWERED_MAX] * workload.producers

        async def frozen_while_it_sends() -> None:
            async with asyncio.timeout(None) as limit, workload.running():
                await workload.goes_on()
                assert workload.part == "sending"
                for name in cluster.members:
                    cluster.pause(name)
                await until(both_wait, "both producers wait for an answer")
                limit.reschedule(asyncio.get_running_loop().time() + STANDS_S)

        with pytest.raises(TimeoutError):
            await frozen_while_it_sends()
        assert workload.part == "the end of producer 0, producer 1"
        assert "; batches without an answer: producer 0: " in workload.standing
        assert "impatient" not in workload.standing
        left = [each for each in workload.history.operations if each.detail == "GIVEN UP"]
        assert {each.client for each in left} == {"producer 0", "producer 1"}
        assert {each.outcome for each in left} == {UNKNOWN}


def test_a_stuck_configuration_keeps_history_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toxiproxy_program()
    out = tmp_path / "out"
    # It is given up before its first fault, of 5 s, can be over.
    arguments = ["--seconds", "1", "--bound", "2", "--only", "isolate-master", "--out", str(out)]
    assert campaign.main(arguments) == campaign.BROKEN
    said = capsys.readouterr().out
    assert "configuration=isolate-master verdict=STUCK\n  failed: not over 2 s after its time\n" in said
    assert "  failed: it stood at: " in said
    kept = [Path(each) for each in said.partition("what is known of it: ")[2].splitlines()[0].split(", ")]
    assert kept == [out / "isolate-master" / "history.jsonl", out / "isolate-master" / "logs"]
    assert list(kept[1].glob("*.log"))
    events = [json.loads(line) for line in kept[0].read_text(encoding="utf-8").splitlines()]
    if "it stood at: round 1, isolate, " in said:  # a slow machine may have come no further than the start
        assert {"acknowledged", "fault", "member"} <= {event["event"] for event in events}

"""Every line that real members write as JSON, over a handoff and a kill, says whose it is and in which epoch."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest

from tandemq.cli.view import PairView
from tandemq.v1 import pair_service_pb2
from tests.integration.support import new_id, raw_to, refused
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process
ROLE = re.compile(r"domain main: ([A-Z_]+), epoch ([0-9]+): ")
ALWAYS = {"time": str, "level": str, "pair": str, "member": str, "epoch": int, "logger": str, "message": str}


def lines_of(path: Path) -> list[dict[str, Any]]:
    """All of them are JSON objects, else this fails."""
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_each_line_has_pair_member_and_epoch_over_a_handoff_and_a_kill(tmp_path: Path) -> None:
    cluster = patient(tmp_path)
    for name in cluster.members:
        cluster.children[name].arguments += ["--log-level", "debug"]
    request_id = new_id()
    async with cluster.running(), raw_to(*cluster.endpoints) as members:
        [first] = (await cluster.status()).masters()
        second = "b" if first == "a" else "a"
        master = members[cluster.members.index(first)]
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND):
            await master.send("orders/nowhere", b"x", request_id=request_id)
        answer = await master.pair.Handoff(pair_service_pb2.HandoffRequest(reason="test"), timeout=OUTER_S)
        assert answer.done, answer
        await cluster.wait_for(PairView.whole, "whole after the handoff")
        cluster.kill(second)
        view = await cluster.wait_for(lambda view: view.masters() == [first], "the first one is master again")
        last = view.members[[each.name for each in view.members].index(first)].domain("main")
        assert last is not None
        await cluster.restart(second)
        await cluster.wait_for(PairView.whole, "whole after the kill")
        logs = {name: lines_of(cluster.children[name].log) for name in cluster.members}
    for name, lines in logs.items():
        for line in lines:
            assert {key: type(line.get(key)) for key in ALWAYS} == ALWAYS, line
            assert (line["pair"], line["member"]) == ("pair", name), line
            if found := ROLE.match(line["message"]):
                assert (line["domain"], line["epoch"]) == ("main", int(found[2])), line
            if line["message"].startswith("domain "):
                assert line["message"].startswith(f"domain {line['domain']}: "), line
        # Nothing is told in an epoch that was over: each process begins at 0, before it has read its store.
        starts = [place for place, line in enumerate(lines) if line["epoch"] == 0 and "domain" not in line]
        of_main = [(place, line["epoch"]) for place, line in enumerate(lines) if line.get("domain", "main") == "main"]
        for (_, before), (place, after) in pairwise(of_main):
            assert after >= before or place in starts, lines[place]
    masters = [
        (name, line["epoch"], line["time"])
        for name, lines in logs.items()
        for line in lines
        if (found := ROLE.match(line["message"])) and found[1] == "MASTER"
    ]
    by_time = [(name, epoch) for name, epoch, _ in sorted(masters, key=lambda each: each[2])]
    assert [name for name, _ in by_time] == [first, second, first]
    assert sorted({epoch for _, epoch in by_time}) == [epoch for _, epoch in by_time], "each mastership has its own"
    assert by_time[-1][1] == last.epoch
    [told] = [line for line in logs[first] if line.get("method") == "tandemq.v1.QueueService/Enqueue"]
    assert (told["level"], told["queue"], told["request"]) == ("debug", "orders/nowhere", request_id.hex())

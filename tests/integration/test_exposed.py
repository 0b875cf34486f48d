"""A member whose ports are plain and can be reached from other machines says so wherever somebody looks."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tandemq.cli.doctor.asking import metrics_of
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process


async def test_a_plain_port_that_others_reach_is_in_status_log_and_metrics(tmp_path: Path) -> None:
    single = patient(tmp_path, members=("a",))
    client, http = single.endpoint("a"), single.config("a").listen_http
    far = f"0.0.0.0:{client.rpartition(':')[2]}"
    single.settings = {"a": {"listen_client": far, "advertise": client, "insecure_network": True}}
    async with single.running():
        view = await single.status()
        assert [member.plain_ports for member in view.members] == [(far,)]
        words = [sys.executable, "-m", "tandemq", "pair", "status", "--target", client, "-o", "table"]
        asked = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        out, _ = await asked.communicate()
        assert f"a: INSECURE: {far} in clear text" in out.decode()
        assert b"\ntandemq_insecure_network 1.0\n" in await asyncio.to_thread(metrics_of, http, OUTER_S)
    assert f"INSECURE: {far} talks in clear text" in single.children["a"].log.read_text(encoding="utf-8")


async def test_one_on_loopback_says_nothing_of_it(tmp_path: Path) -> None:
    single = patient(tmp_path, members=("a",))
    async with single.running():
        view = await single.status()
        assert [member.plain_ports for member in view.members] == [()]
    assert "INSECURE" not in single.children["a"].log.read_text(encoding="utf-8")

"""The HTTP port of a manager with certificates, beyond this machine: TLS, and metrics for whoever may observe."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import CLIENT
from tandemq import aio
from tandemq.cli.doctor.asking import metrics_of
from tandemq.cli.doctor.gathering import shown_at
from tandemq.config import ConfigError, check
from tandemq.config_security import Security
from tandemq.credentials.development import prepare
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

PEOPLE = {"a": "member/a/a", CLIENT: "principal/ops", "prometheus": "principal/prometheus"}
NAME = "a.a.member.tandemq"


async def test_metrics_beyond_this_machine_are_for_who_may_observe(tmp_path: Path) -> None:
    shown = tmp_path / "credentials"
    prepare(shown, tmp_path / "authority", PEOPLE)
    single = patient(tmp_path, members=("a",), secured=shown, operators=["ops"])
    port = single.config("a").listen_http.rpartition(":")[2]
    single.settings = {"a": {"listen_http": f"0.0.0.0:{port}"}}
    assert not single.config("a").insecure_network
    async with single.running():

        async def page(who: str) -> bytes:
            return await asyncio.to_thread(metrics_of, f"127.0.0.1:{port}", OUTER_S, shown / who, NAME)

        for who in (CLIENT, "a"):  # an administrator, and the member itself, as the doctor shows it
            assert b"tandemq_epoch" in await page(who)
        with pytest.raises(OSError, match="403"):
            await page("prometheus")
        async with aio.connect(single.target, credentials=shown / CLIENT, timeout=OUTER_S) as ops:
            await ops.grant_right("prometheus", "observe")

        async def reads() -> bool:
            try:
                return b"tandemq_epoch" in await page("prometheus")
            except OSError:
                return False

        await until(reads, "the right is in force")
        with pytest.raises(OSError, match=r"(?i)reset|closed|status|bad|line"):
            await asyncio.to_thread(metrics_of, f"127.0.0.1:{port}", OUTER_S)
        assert await asyncio.to_thread(metrics_of, f"0.0.0.0:{port}", OUTER_S, *shown_at(single.config("a")))


def test_a_plain_http_port_beyond_this_machine_is_refused(tmp_path: Path) -> None:
    config = patient(tmp_path, members=("a",)).config("a")
    far = msgspec.structs.replace(config, listen_http="0.0.0.0:7602")
    with pytest.raises(ConfigError, match="in clear text and by anybody"):
        check(far)
    check(msgspec.structs.replace(far, security=Security(credentials="/c", administrators=("ops",))))

"""Clients in other languages, as far as their toolchains are here; `make interop` says the same aloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tests.interop.clients import CLIENTS, Missing, run_all


@pytest.mark.process
@pytest.mark.timeout(330)  # the first run downloads and compiles; later ones take seconds
@pytest.mark.parametrize("name", list(CLIENTS))
async def test_a_client_from_the_protos_alone(name: str, tmp_path: Path) -> None:
    try:
        command = CLIENTS[name]()
    except Missing as missing:
        pytest.skip(f"SKIPPED, NOT PASSED: {name}: {missing}")
    lines: list[str] = []
    async with Cluster(tmp_path).running() as cluster:
        await run_all(cluster, command, lines.append)
    assert len(lines) == 5, lines

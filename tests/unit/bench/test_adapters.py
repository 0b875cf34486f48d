"""What every adapter and client must have to be measured, and that bench/README.md tells what each one promises."""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path
from typing import Any

import pytest

from bench import machine
from bench.peers.adapters import KINDS, PEERS, floor
from bench.peers.adapters.artemis import Artemis
from bench.peers.adapters.floor import bounded
from bench.peers.contract import IN_FLIGHT_BYTES_MAX, Peer
from bench.peers.payloads import SIZE_MIN
from bench.peers.place import Place
from bench.peers.run import BACKLOG, Load, Measurement
from bench.peers.session import SIZE_MAX

BENCH = Path(__file__).resolve().parents[3] / "bench"


def test_names_and_roles_are_used_once() -> None:
    assert len(PEERS) == len(KINDS)
    for peer in KINDS:
        assert len(set(peer.roles)) == len(peer.roles) > 0


@pytest.mark.parametrize("peer", KINDS, ids=lambda peer: peer.name)
def test_a_peer_asks_no_more_than_the_others(peer: type[Peer]) -> None:
    assert peer.batch <= 1000
    assert peer.window <= 5000
    assert peer.batch <= peer.window


class Asked(Measurement):
    """Starts no load; keeps what each process would have been told."""

    def __init__(self, peer: Peer, size: int) -> None:
        options = argparse.Namespace(size=size, warm_s=0.1, seconds=1.0, rates=[])
        super().__init__(peer.place, peer, options, 0)
        self.specs: list[dict[str, Any]] = []

    def _load(self, role: str, spec: dict[str, Any]) -> Load:  # noqa: ARG002  # see Measurement
        self.specs.append(spec)
        return NOTHING


class Nothing(Load):
    def __init__(self) -> None:
        pass

    def ready(self) -> None:
        pass

    def result(self) -> dict[str, Any]:
        return {"value": 1.0, "account": {"lost": 0, "corrupt": 0, "unknown": 0, "again": 0}}


NOTHING = Nothing()


@pytest.mark.parametrize("size", [SIZE_MIN, 1 << 10, 1 << 12, 16 << 10, SIZE_MAX])
@pytest.mark.parametrize("peer", [peer for peer in KINDS if peer.client], ids=lambda peer: peer.name)
def test_what_is_in_flight_is_bounded_by_bytes_too(
    peer: type[Peer], size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "target", lambda _: {})
    asked = Asked(peer(Place(tmp_path / "run")), size)
    lines = {line["workload"]: line for line in asked.workloads()}
    assert len(asked.specs) == 6
    for spec in asked.specs:
        assert 1 <= spec["batch"] <= peer.batch or spec["batch"] <= (peer.frames or 0)
        assert spec["window"] * size <= IN_FLIGHT_BYTES_MAX
        assert spec.get("backlog", 0) * size <= IN_FLIGHT_BYTES_MAX
    told = [remark for remark in lines["flow"]["remarks"] if "unanswered" in remark]
    if size <= 1 << 12:
        flow = asked.specs[2]
        assert (flow["window"], flow["batch"], flow["backlog"]) == (peer.window, peer.batch, BACKLOG)
        assert told == []
    if size == SIZE_MAX:
        assert told == [f"at most 32 unanswered, not {peer.window:,}: 32 MiB of payload"]
        assert not [remark for remark in lines["single"]["remarks"] if "unanswered" in remark]


def test_what_the_floor_has_in_flight_is_bounded_by_bytes_too() -> None:
    enqueue, flow = floor.KINDS["enqueue"], floor.KINDS["flow"]
    assert bounded(enqueue, 1 << 10) == enqueue
    assert bounded(flow, 1 << 12) == flow
    assert bounded(enqueue, 1 << 20)["frame"] == 3
    assert bounded(flow, 1 << 20) == {**flow, "frame": 1, "credit": 32, "backlog": 32}
    assert bounded(floor.KINDS["single"], 1 << 20) == floor.KINDS["single"]


def test_a_journal_of_another_kind_than_the_label_says_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Artemis falls back from libaio to NIO, and says so in its log alone."""
    peer = Artemis(Place(tmp_path / "run"))
    for found, wrong in (("NIO", ""), ("ASYNCIO", "JournalType is 'ASYNCIO', not 'NIO'")):
        monkeypatch.setattr(peer, "_read", lambda found=found: {"JournalType": found})
        (journal,) = [setting for setting in peer.settings() if setting.name == "JournalType"]
        assert journal.wrong == wrong
    assert journal.wanted in peer.title
    assert journal.wanted in peer.described()["journal"]


@pytest.mark.parametrize("peer", [peer for peer in KINDS if peer.client], ids=lambda peer: peer.name)
def test_a_client_has_what_a_load_process_calls(peer: type[Peer]) -> None:
    tree = ast.parse((BENCH / "peers/clients" / f"{peer.client}.py").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert functions >= {"prepare", "produce", "consume"}


@pytest.mark.parametrize("name", ["redis", "postgres"])
def test_a_result_tells_how_many_connections_its_client_has(name: str, tmp_path: Path) -> None:
    text = (BENCH / "peers/clients" / f"{name}.py").read_text()
    found = re.search(r"^CONNECTIONS = (\d+)$", text, re.MULTILINE)
    assert found
    assert PEERS[name](Place(tmp_path / "run")).described()["connections"] == int(found[1])


def test_what_the_benchmark_itself_needs_is_missed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert PEERS["tandemq"](Place(tmp_path / "run")).missing()[:2] == ["strace", "setpriv"]
    assert machine.facts()["commit"] == "unknown-dirty", "there is no git either; such a result is not taken"


def test_the_page_tells_of_every_peer() -> None:
    page = (BENCH / "README.md").read_text()
    assert [name for name in PEERS if f"| `{name}` |" not in page] == []

"""What every adapter and client must have to be measured, and that bench/README.md tells what each one promises."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bench.peers.adapters import KINDS, PEERS
from bench.peers.contract import Peer

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


@pytest.mark.parametrize("peer", [peer for peer in KINDS if peer.client], ids=lambda peer: peer.name)
def test_a_client_has_what_a_load_process_calls(peer: type[Peer]) -> None:
    tree = ast.parse((BENCH / "peers/clients" / f"{peer.client}.py").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert functions >= {"prepare", "produce", "consume"}


def test_the_page_tells_of_every_peer() -> None:
    page = (BENCH / "README.md").read_text()
    assert [name for name in PEERS if f"| `{name}` |" not in page] == []

"""A manager inside the caller's process, and the refusal when somebody else's modules have our names."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from tandemq.client import aio
from tandemq.config import ConfigError, ManagerConfig, member_ports
from tandemq.embedded import open_manager, server_path


def test_foreign_modules_of_our_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "storage", types.ModuleType("storage"))
    with pytest.raises(ConfigError, match=r"a module named storage is loaded that is not Tandemq's.*tandemq serve"):
        server_path()


def test_our_own_modules_may_be_loaded_already() -> None:
    import storage

    assert (server_path() / "storage").resolve() == Path(next(iter(storage.__path__))).resolve()


@pytest.mark.slow
async def test_a_manager_serves_inside_this_process(tmp_path: Path, base_port: int) -> None:
    client_port, peer, http = (f"127.0.0.1:{port}" for port in member_ports(base_port, 0))
    config = ManagerConfig(
        member="solo", data_dir=str(tmp_path), listen_client=client_port, listen_peer=peer, listen_http=http
    )
    async with open_manager(config), aio.connect(client_port) as client:
        await client.create_queue("orders")
        receipts = await client.enqueue("orders", [b"hello"])
        assert (receipts[0].index, receipts[0].copies) == (1, 1)

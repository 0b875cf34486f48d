"""R148: queues are exported into a file that people also edit: comments stay, half a change is never seen."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from tandemq.errors import Refused
from tandemq.finding.file_registry import FileRegistry
from tandemq.finding.profile import BadProfile, read
from tandemq.finding.resolver import Exported, Manager
from tandemq.finding.resolvers import ResolverSpec, make

ORDERS = Manager("orders", ("a:7600", "b:7610"))
BY_HAND = """\
# The site's managers; ask operations before you change this.
[managers.orders]   # the pair in the cellar
endpoints = ["b:7610", "a:7600"]

[queues."cf/hotline"]  # moved in spring
manager = "orders"

[aliases]
my_qmgr = "orders"  # for the old programs
"""


async def test_comments_and_the_work_of_people_stay(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(BY_HAND)
    path.chmod(0o640)
    registry = FileRegistry(path)
    assert await registry.export(Exported("new.q", "orders"), ORDERS)
    assert path.read_text() == BY_HAND + '\n[queues."new.q"]\nmanager = "orders"\n'
    assert await registry.withdraw("cf/hotline", "orders")
    assert path.read_text().count("#") == 3
    assert "# for the old programs" in path.read_text()
    assert await registry.withdraw("new.q", "orders")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    found = read(path)
    assert found is not None
    assert (dict(found.queues), dict(found.aliases)) == ({}, {"my_qmgr": "orders"})
    assert os.listdir(tmp_path) == ["site.toml"]  # noqa: PTH208 - names alone are compared


async def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("")
    (tmp_path / "link.toml").symlink_to(tmp_path / "real.toml")
    await FileRegistry(tmp_path / "link.toml").export(Exported("q", "orders"), ORDERS)
    assert (tmp_path / "link.toml").is_symlink()
    assert "queues.q" in (tmp_path / "real.toml").read_text()


async def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    await asyncio.gather(*(FileRegistry(path).export(Exported(f"q{place}", "orders"), ORDERS) for place in range(20)))
    found = read(path)
    assert found is not None
    assert set(found.queues) == {f"q{place}" for place in range(20)}
    assert found.defaults == ()  # exporting makes nothing a default manager


@pytest.mark.parametrize(
    "text",
    [
        'queues = { q = { manager = "orders" } }\n',
        'queues.q.manager = "orders"\n',
        '[queues]\nq = { manager = "orders" }\n',
    ],
)
async def test_what_cannot_be_changed_safely_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(Refused, match=r"cannot be changed safely; edit the section of queue 'q' by hand"):
        await FileRegistry(path).withdraw("q", "orders")
    assert path.read_text() == text


async def test_a_file_that_cannot_be_used_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text("[managers.x]\n")
    with pytest.raises(Refused, match=r"CONFIG_ERROR: .*managers\.x\.endpoints is missing"):
        await FileRegistry(path).export(Exported("q", "orders"), ORDERS)
    assert path.read_text() == "[managers.x]\n"
    with pytest.raises(Refused, match="cannot be written: No such file or directory; export as who may"):
        await FileRegistry(tmp_path / "none" / "site.toml").export(Exported("q", "orders"), ORDERS)


def test_options() -> None:
    for options in ({}, {"path": 1}, {"path": "x", "file": "y"}):
        with pytest.raises(BadProfile, match="path"):
            make(ResolverSpec("file", options, "here"))

"""What a classifier is given of the changes of role and the verdicts before: of paired domains, a bounded number."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from failover.marks import DataMark, Role
from replica.core.state.effects import Note, RoleChanged
from replica.operations.events import EventLog
from replica.operations.reports import RECENT_CHARS_MAX, RECENT_MAX, Reports
from tandemq.v1.pair_service_pb2 import PairEventKind


@pytest.fixture
async def reports(tmp_path: Path) -> AsyncIterator[Reports]:
    log = EventLog(tmp_path, "a")
    yield Reports(log)
    await log.close()


def domain(peer: str = "b") -> Any:
    state = SimpleNamespace(epoch=3, data=DataMark.IN_SYNC)
    shared = SimpleNamespace(
        name="main", member="a", peer=peer, state=state, role=Role.MASTER, log=SimpleNamespace(last_index=7)
    )
    view = SimpleNamespace(in_sync_set=frozenset({"a", "b"}))
    return SimpleNamespace(shared=shared, mastership=SimpleNamespace(view=view))


def verdict(name: str, text: str = "verdict") -> Note:
    return Note(PairEventKind.PAIR_EVENT_KIND_VERDICT, text, {"verdict": name, "effect": "wait"})


async def test_roles_and_verdicts_stand_in_their_order_with_time_and_domain(reports: Reports) -> None:
    reports.on_role(domain(), RoleChanged(Role.MASTER.value, 3, "the register agrees"))
    reports.on_note(domain(), verdict("WAIT", "verdict WAIT by command: wait"))
    assert [line[20:] for line in reports.recent] == [
        " main: a is MASTER now: the register agrees",
        " main: verdict WAIT by command: wait",
    ]
    assert reports.recent[0][:20].endswith("Z")


async def test_what_is_no_verdict_and_what_is_not_paired_is_left_out(reports: Reports) -> None:
    reports.on_note(domain(), verdict("none"))
    reports.on_note(domain(), Note(PairEventKind.PAIR_EVENT_KIND_LINK, "connected"))
    reports.on_role(domain(peer=""), RoleChanged(Role.MASTER.value, 1, "unpaired"))
    assert reports.recent == ()


async def test_the_oldest_go_and_a_long_one_is_cut(reports: Reports) -> None:
    for number in range(RECENT_MAX + 2):
        reports.on_note(domain(), verdict("WAIT", f"{number} " + "x" * RECENT_CHARS_MAX))
    assert len(reports.recent) == RECENT_MAX
    assert [line[20:].split()[1] for line in reports.recent[:1]] == ["2"]
    assert {len(line) for line in reports.recent} == {RECENT_CHARS_MAX}

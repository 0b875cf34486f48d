"""The table of frames: each kind has one row, and what a row says of epochs is what happens."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterable

import pytest

import replica.core.domain
from failover.marks import Role
from replica.core.domain import FRAMES, Domain, Epochs
from replica.machine import Limits, Machine
from replica.node.recovery import open_shared
from storage.memory import MemoryStore
from tandemq.peer.v1.peer_service_pb2 import PeerFrame
from tests.support.domains import domain_over

DOMAIN, EPOCH = 7, 5
KINDS = tuple(field.name for field in PeerFrame.DESCRIPTOR.oneofs_by_name["frame"].fields)
LOWER, SAME, HIGHER = EPOCH - 1, EPOCH, EPOCH + 1


def domain_in(role: Role) -> Domain:
    store = MemoryStore(member="a", instance=b"a" * 16)
    shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())
    shared.machine = Machine(DOMAIN, ("a", "b"), shared.limits)
    domain = domain_over(store, shared)
    shared.state.epoch, shared.state.owner = EPOCH, "b"
    shared.role, shared.serving = role, role is Role.MASTER
    domain.take()
    return domain


def frame_of(kind: str, epoch: int) -> PeerFrame:
    frame = PeerFrame(domain=DOMAIN, epoch=epoch)
    getattr(frame, kind).SetInParent()
    return frame


def keys_in(source: str) -> list[str]:
    """The kinds that a table in there has a row for, each as often as it is written."""
    tables = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.AnnAssign)]
    table = next(node for node in tables if ast.unparse(node.target) == "FRAMES")
    assert table.value is not None
    rows = next(node for node in ast.walk(table.value) if isinstance(node, ast.Dict))
    return [key.value for key in rows.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def misfits(written: Iterable[str]) -> list[str]:
    """Kinds that have no row, or more than one, and rows of no kind."""
    count = Counter(written)
    return sorted(kind for kind in {*KINDS, *count} if count[kind] != (kind in KINDS))


def test_each_kind_of_frame_has_one_row() -> None:
    wrong = misfits(keys_in(inspect.getsource(replica.core.domain)))
    assert wrong == [], f"FRAMES of replica/core/domain.py has no row, or more than one, of {', '.join(wrong)}"
    assert len(FRAMES) == len(KINDS) > 15


@pytest.mark.parametrize(
    ("written", "wrong"),
    [(KINDS[1:], [KINDS[0]]), ((*KINDS, "op"), ["op"]), ((*KINDS, "gossip"), ["gossip"])],
)
def test_a_planted_misfit_is_found(written: tuple[str, ...], wrong: list[str]) -> None:
    rows = ", ".join(f"{kind!r}: UNKNOWN" for kind in written)
    assert misfits(keys_in(f"FRAMES: Mapping[str, FrameRow] = MappingProxyType({{{rows}}})")) == wrong


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("role", [Role.REPLICA, Role.MASTER])
def test_a_frame_of_a_lower_epoch_has_no_effect_but_where_its_row_says_so(role: Role, kind: str) -> None:
    domain = domain_in(role)
    rule = FRAMES[kind].epoch
    taken = rule is Epochs.ANY or (rule is Epochs.CURRENT_AT_MASTER and role is not Role.MASTER)
    assert domain.on_frame(frame_of(kind, LOWER), 0) is taken
    if not taken:
        assert domain.take() == []
        assert domain.shared.role is role


@pytest.mark.parametrize("kind", FRAMES)
def test_a_master_that_hears_a_higher_epoch_is_none_any_more(kind: str) -> None:
    domain = domain_in(Role.MASTER)
    assert domain.on_frame(frame_of(kind, HIGHER), 0)
    any_epoch = FRAMES[kind].epoch is Epochs.ANY
    assert domain.shared.serving is any_epoch
    if FRAMES[kind].epoch in (Epochs.CURRENT, Epochs.CURRENT_AT_MASTER):
        assert domain.shared.role is Role.PROBE


def test_a_frame_of_a_later_version_is_ignored() -> None:
    domain = domain_in(Role.REPLICA)
    assert domain.on_frame(PeerFrame(domain=DOMAIN, epoch=SAME), 0)
    assert not domain.on_frame(PeerFrame(domain=DOMAIN, epoch=LOWER), 0)
    assert domain.take() == []

"""Ranges of ports: who has one has it alone, and nobody gets one in which somebody listens."""

from __future__ import annotations

import os
import socket

import pytest

from chaos import ports
from chaos.ports import NoRangeError, PortRange, base_ports, ports_in_use


def test_a_range_is_free_and_belongs_to_one_until_it_is_released() -> None:
    with PortRange() as one, PortRange() as other:
        assert one.base_port != other.base_port
        assert ports_in_use(one.base_port) == []
    with PortRange() as again:
        assert again.base_port == one.base_port


def test_a_range_goes_with_the_object_that_holds_it() -> None:
    one = PortRange()
    base_port = one.base_port
    del one
    with PortRange() as again:
        assert again.base_port == base_port


def test_a_range_in_which_somebody_listens_is_passed_by_and_not_held() -> None:
    with PortRange() as one:
        base_port = one.base_port
    with socket.create_server((ports.HOST, base_port + ports.TOXIPROXY_OFFSET)), PortRange() as other:
        assert other.base_port != base_port
        with socket.create_server((ports.HOST, base_port + ports.HOLDING_OFFSET)):
            pass
    with PortRange() as again:
        assert again.base_port == base_port


def test_when_every_range_is_held_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with PortRange() as one:
        monkeypatch.setattr(ports, "base_ports", lambda: iter([one.base_port]))
        with pytest.raises(NoRangeError, match="no free range of ports"):
            PortRange()


def test_processes_that_were_born_together_look_for_ranges_far_from_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has all ranges to choose from; ten in a row are nobody else's among eight neighbours."""
    looks = []
    for number in range(4_000, 4_008):
        monkeypatch.setattr(os, "getpid", lambda number=number: number)
        looks.append(list(base_ports()))
    assert all(len(set(look)) == 400 for look in looks)
    taken = [base for look in looks for base in look[:10]]
    assert len(set(taken)) == len(taken)

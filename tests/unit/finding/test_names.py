"""R142, ruling 19: what is a full name, and what a person is told of one that is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.machine.state.system_names import Destination, is_system, target_of, way_to, xmit_queue
from tandemq.errors import InvalidRequest
from tandemq.finding.names import FullName, is_full, parse_place, parse_queue

SEGMENTS = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True).filter(lambda text: text not in (".", ".."))
MANAGERS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)


@pytest.mark.requirement("R142")
@given(MANAGERS, st.lists(SEGMENTS, min_size=1, max_size=6))
def test_a_full_name_is_the_managers_name_and_a_relative_name_with_slashes(manager: str, segments: list[str]) -> None:
    relative = "/".join(segments)
    name = parse_queue(f"//{manager}/{relative}")
    assert name == FullName(manager, relative)
    assert parse_queue(str(name)) == name
    assert is_full(str(name))
    assert not is_full(relative)


def test_a_manager_alone_and_an_exported_queue_are_places_too() -> None:
    assert parse_place("//orders") == parse_place("//orders/") == FullName("orders", "")
    assert parse_place("//my_qmgr/cf/hotline") == FullName("my_qmgr", "cf/hotline")
    assert parse_place("///cf/hotline") == FullName("", "cf/hotline")
    assert [str(parse_place(text)) for text in ("//orders", "///cf/hotline")] == ["//orders", "///cf/hotline"]


@given(MANAGERS, MANAGERS.filter(lambda text: not text.isdecimal() and text != "local"))
def test_x1_a_domain_stands_behind_the_managers_name(manager: str, domain: str) -> None:
    name = parse_queue(f"//{manager}:{domain}/cf/hotline")
    assert name == FullName(manager, "cf/hotline", domain)
    assert str(name) == f"//{manager}:{domain}/cf/hotline"
    through = xmit_queue(Destination(manager, domain))
    assert target_of(through) == Destination(manager, domain)
    assert is_system(through)


@given(MANAGERS, MANAGERS.filter(lambda text: not text.isdecimal() and text != "local"))
def test_m4_a_queue_behind_it_is_where_all_that_is_in_it_goes(manager: str, domain: str) -> None:
    for full_name in (f"//{manager}/cf/hotline", f"//{manager}:{domain}/cf/hotline"):
        through, place = way_to(full_name), full_name.removeprefix("//").removesuffix("/cf/hotline")
        target = target_of(through)
        assert target is not None
        assert (target.full_name, target.place, xmit_queue(target)) == (full_name, place, through)
        assert is_system(through)
    assert target_of(f"SYSTEM.XMIT/{manager}/") is None
    assert target_of(f"SYSTEM.XMIT/{manager}/../q") is None
    assert target_of(f"SYSTEM.XMIT/{manager}/SYSTEM.DEAD") is None


@pytest.mark.parametrize("target", ["west:local", "west:7600", "west:", "west:a:b", ":billing", "a" * 65])
def test_x1_what_no_full_name_leads_to_is_no_transmission_queue(target: str) -> None:
    assert target_of(f"SYSTEM.XMIT/{target}") is None
    with pytest.raises(InvalidRequest):
        parse_queue(f"//{target}/q")


@pytest.mark.requirement("R142")
@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("//", "names nothing"),
        ("///", "names nothing"),
        ("/orders/q", "does not begin with two slashes"),
        ("orders/q", "does not begin with two slashes"),
        ("/.:/subsys/queues/osf-qmgr1/cf/hotline", "is a name of DCE; write //manager"),
        ("//orders//q", "a segment is empty"),
        ("//orders/q/", "a segment is empty"),
        ("////q", "a segment is empty"),
        ("//orders/./q", "means nothing here"),
        ("//orders/a/../q", "means nothing here"),
        ("//orders/a b", "'a b' is no segment"),
        ("//orders/ä", "is no segment"),
        ("//host:7600/q", "give endpoints without slashes"),
        ("//host:7600", "give endpoints without slashes"),
        ("//_orders/q", "a letter or digit first"),
        ("//orders:/q", "'' is no domain's name"),
        ("//orders:_b/q", "a letter or digit first"),
        ("//orders:a:b/q", "'a:b' is no domain's name"),
        ("//:billing/q", "'' is no manager's name"),
        ("//orders:local/q", "no name leads there; write //orders/queue"),
        ("//orders:" + "d" * 65 + "/q", "at most 64"),
        ("//or ders/q", "is no manager's name"),
        ("//" + "m" * 65 + "/q", "at most 64"),
        ("//orders/" + "q" * 256, "longer than 255 bytes"),
        ("//orders/\udc82", "is no segment"),
    ],
)
def test_what_is_no_name_is_refused_with_what_to_do(text: str, advice: str) -> None:
    with pytest.raises(InvalidRequest, match=advice) as caught:
        parse_place(text)
    assert caught.value.reason == "BAD_NAME"
    assert caught.value.definite
    assert len(caught.value.message) < 500


def test_a_queue_is_wanted_where_a_queue_is_wanted() -> None:
    with pytest.raises(InvalidRequest, match="names a manager and no queue; write //orders/queue"):
        parse_queue("//orders")

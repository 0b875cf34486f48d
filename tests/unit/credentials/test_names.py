"""Names in certificates: no two members are alike, whatever they and their pairs are called."""

from __future__ import annotations

import itertools
import re

import pytest

from tandemq.credentials.names import dns, member, problem_of, uri, who_of

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def test_a_member_a_witness_and_a_client_have_the_names_of_the_documents() -> None:
    assert uri(member("orders", "a")) == "tandemq:member/orders/a"
    assert dns(member("orders", "a")) == "a.orders.member.tandemq"
    assert dns("witness/witness") == "witness.witness.tandemq"
    assert dns("principal/billing") == ""


def test_no_two_members_are_expected_by_one_name() -> None:
    """A dot ends a label of DNS, and DNS takes capitals for small letters: each of these pairs would be one name."""
    names = ["a", "A", "x", "x.a", "a.b", "b", "a_b", "a-b", "-", "x--", f"x--{'0' * 32}", "n" * 64, "n" * 63, "a-"]
    members = [member(pair, name) for pair, name in itertools.product(names, repeat=2)]
    found = {dns(each).lower() for each in members}
    assert len(found) == len(members)
    for each in found:
        assert all(LABEL.fullmatch(label) for label in each.split(".")), each
        assert len(each) <= 253


@pytest.mark.parametrize(
    ("uris", "who"),
    [
        (["tandemq:principal/billing"], "principal/billing"),
        (["spiffe://other/x", "tandemq:member/orders/a"], "member/orders/a"),
        (["tandemq:member/orders/a", "tandemq:member/orders/b"], ""),
        (["tandemq:member/orders"], ""),
        (["tandemq:member/orders/a/b"], ""),
        (["tandemq:principal/../a"], ""),
        (["tandemq:root/a"], ""),
        (["http://tandemq:principal/billing"], ""),
        ([], ""),
    ],
)
def test_who_has_a_certificate_is_clear_or_nobody(uris: list[str], who: str) -> None:
    assert who_of(uris) == who


@pytest.mark.parametrize("wrong", ["", "a", "member/a", "principal/", "principal/a b", "witness/" + "n" * 65, "x/y"])
def test_a_name_that_cannot_stand_there_is_refused(wrong: str) -> None:
    assert problem_of(wrong)

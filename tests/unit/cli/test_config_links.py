"""Where other managers are, in a member's configuration."""

from __future__ import annotations

import pytest

from tandemq.config_links import Links, endpoints_of, problem_of, routes_of


def test_a_pair_has_an_entry_for_each_endpoint() -> None:
    links = Links(managers=("west=10.0.0.1:7600", "west=10.0.0.2:7600", "south=[::1]:7600"))
    assert problem_of(links, ("east", "a", "b")) == ""
    assert endpoints_of(links) == {"west": ["10.0.0.1:7600", "10.0.0.2:7600"], "south": ["[::1]:7600"]}


@pytest.mark.parametrize("entry", ["west", "west=", "=h:1", "west=h", "west=h:0", "west=:7600", "//west=h:1"])
def test_what_is_no_entry_is_refused_by_name(entry: str) -> None:
    assert problem_of(Links(managers=(entry,)), ()).startswith(f"links.managers = {entry!r}: write NAME=host:port")


def test_a_manager_does_not_link_to_itself() -> None:
    assert "is this manager itself" in problem_of(Links(managers=("east=h:1",)), ("east", "a", "b"))


def test_a_route_names_who_sends_on() -> None:
    links = Links(managers=("west=h:1",), routes=("north=west", "south=west"))
    assert problem_of(links, ("east", "a", "b")) == ""
    assert routes_of(links) == {"north": "west", "south": "west"}


@pytest.mark.parametrize("entry", ["north", "north=", "=west", "north=north", "north=//west", "north=west=east"])
def test_what_is_no_route_is_refused_by_name(entry: str) -> None:
    assert problem_of(Links(routes=(entry,)), ()).startswith(f"links.routes = {entry!r}: write NAME=MANAGER")


@pytest.mark.parametrize("entry", ["east=west", "north=b"])
def test_no_route_leads_from_or_to_the_manager_itself(entry: str) -> None:
    assert "is this manager itself" in problem_of(Links(routes=(entry,)), ("east", "a", "b"))


def test_a_manager_has_one_route() -> None:
    assert "north has a route already" in problem_of(Links(routes=("north=west", "north=south")), ())

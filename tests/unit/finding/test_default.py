"""R146: which manager is used when none is named; one source after another, and each says why it does not decide."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandemq.client.target import NoTarget
from tandemq.finding import default
from tandemq.finding.profile import BadProfile

ORDERS = '[managers.{name}]\nendpoints = ["{name}:7600"]\n'


def world(folder: Path) -> dict[str, str]:
    """An environment in which every source names a manager of its own."""
    (folder / "context.toml").write_text('target = "context:7600"\npair = "p"\n')
    for kind in ("managers", "host", "site"):
        (folder / f"{kind}.toml").write_text(ORDERS.format(name="user" if kind == "managers" else kind))
    return {
        "TANDEMQ_CONFIG_HOME": str(folder),
        "TANDEMQ_TARGET": "ours:7600",
        "MOS_DFLT_QUEMGR_NAME": "theirs:7600",
        "TANDEMQ_HOST_FILE": str(folder / "host.toml"),
        "TANDEMQ_SITE_FILE": str(folder / "site.toml"),
    }


@pytest.mark.requirement("R146")
def test_each_source_counts_when_those_before_it_are_silent(tmp_path: Path) -> None:
    environment = world(tmp_path)
    assert default.resolve_target("argument:1", environment).endpoints == ("argument:1",)
    decided = [default.resolve_target(None, environment)]
    for variable in ("TANDEMQ_TARGET", "MOS_DFLT_QUEMGR_NAME"):
        del environment[variable]
        decided.append(default.resolve_target(None, environment))
    for file in ("context", "managers"):
        (tmp_path / f"{file}.toml").unlink()
        decided.append(default.resolve_target(None, environment))
    (tmp_path / "host.toml").write_text("")
    decided.append(default.resolve_target(None, environment))
    assert [target.endpoints[0].partition(":")[0] for target in decided] == [
        *("ours", "theirs", "context", "user", "host", "site")
    ]
    (tmp_path / "site.toml").write_text("[managers.a]\nendpoints = ['a']\ndefault = false\n")
    with pytest.raises(NoTarget) as caught:
        default.resolve_target(None, environment)
    for why in (
        *("argument is not given", "$TANDEMQ_TARGET is not set", "$MOS_DFLT_QUEMGR_NAME is not set"),
        *("context.toml does not exist", "managers.toml does not exist"),
        *("host.toml names no default manager", "site.toml names no default manager"),
    ):
        assert why in str(caught.value)


@pytest.mark.requirement("R146")
@pytest.mark.parametrize(
    ("value", "manager", "endpoints"),
    [
        ("orders", "orders", ()),
        ("//orders", "orders", ()),
        ("a:7600,b", "", ("a:7600", "b:7600")),
    ],
)
def test_the_variable_of_the_first_design_names_a_manager(value: str, manager: str, endpoints: tuple[str, ...]) -> None:
    target = default.resolve_target(None, {"MOS_DFLT_QUEMGR_NAME": value, "TANDEMQ_CONFIG_HOME": "/none"})
    assert (target.manager, target.endpoints, target.source) == (manager, endpoints, "$MOS_DFLT_QUEMGR_NAME")


def test_a_variable_that_cannot_be_read_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(NoTarget, match=r"\$MOS_DFLT_QUEMGR_NAME = '/.:/my_qmgr': .* is a name of DCE; write //manager"):
        default.resolve_target(None, {"MOS_DFLT_QUEMGR_NAME": "/.:/my_qmgr", "TANDEMQ_CONFIG_HOME": "/none"})
    with pytest.raises(NoTarget, match="is not host:port"):
        default.resolve_target(None, {"TANDEMQ_TARGET": "a:x", "TANDEMQ_CONFIG_HOME": "/none"})
    (tmp_path / "managers.toml").write_text("[managers.a]\n")
    with pytest.raises(BadProfile, match=r"managers.a.endpoints is missing"):
        default.resolve_target(None, {"TANDEMQ_CONFIG_HOME": str(tmp_path)})


@pytest.mark.requirement("R147")
def test_several_managers_of_a_file_are_candidates_in_order_of_priority(tmp_path: Path) -> None:
    text = "".join(ORDERS.format(name=name) + f"priority = {place}\n" for name, place in (("c", 9), ("a", 1), ("b", 1)))
    (tmp_path / "managers.toml").write_text(text)
    target = default.resolve_target(None, {"TANDEMQ_CONFIG_HOME": str(tmp_path)})
    assert target.endpoints == ()
    assert [manager.name for manager in target.candidates] == ["a", "b", "c"]
    assert str(target) == "//a or //b or //c"


def test_a_target_may_be_a_name() -> None:
    found = [default.resolve_target(text, {}) for text in ("//orders", "//orders/cf/hotline", "///cf/hotline")]
    assert [(target.manager, target.queue, target.endpoints) for target in found] == [
        ("orders", "", ()),
        ("orders", "cf/hotline", ()),
        ("", "cf/hotline", ()),
    ]
    with pytest.raises(NoTarget, match="a segment is empty"):
        default.resolve_target("//orders//q", {})


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("127.0.0.1:7600,127.0.0.1:7610", True),
        ("127.0.0.1:7610", True),
        ("localhost:7600", True),
        ("[::1]:7600", True),
        ("//dev", True),
        ("//dev/orders", True),
        ("127.0.0.1:7600,127.0.0.1:7620", True),
        ("127.0.0.1:7620", False),
        ("10.0.0.1:7600", False),
        ("//orders", False),
        ("///orders", False),
    ],
)
@pytest.mark.parametrize("by", ["argument", "TANDEMQ_TARGET"])
def test_a_contexts_credentials_are_those_of_its_manager_whatever_it_is_called(
    tmp_path: Path, by: str, named: str, found: bool
) -> None:
    """And of no other one: nobody shows a certificate where it was not meant for."""
    (tmp_path / "context.toml").write_text(
        'target = "127.0.0.1:7600,127.0.0.1:7610"\npair = "dev"\ncredentials = "/mine"\n'
    )
    environment = {"TANDEMQ_CONFIG_HOME": str(tmp_path), **({} if by == "argument" else {by: named})}
    target = default.resolve_target(named if by == "argument" else None, environment)
    assert target.credentials == ("/mine" if found else "")


def test_a_context_that_cannot_be_read_is_no_matter_of_who_names_a_manager(tmp_path: Path) -> None:
    (tmp_path / "context.toml").write_text("half a fi")
    target = default.resolve_target("127.0.0.1:7600", {"TANDEMQ_CONFIG_HOME": str(tmp_path)})
    assert (target.endpoints, target.credentials) == (("127.0.0.1:7600",), "")

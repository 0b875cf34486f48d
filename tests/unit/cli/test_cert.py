"""`tandemq cert`, as docs/SECURITY.md shows it, and what it says of credentials that cannot be used."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tandemq.cli import root
from tandemq.config import ConfigError, load
from tandemq.credentials.authority import issue
from tandemq.credentials.own import of_member, of_witness

PAGE = (Path(__file__).parents[3] / "docs" / "SECURITY.md").read_text(encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv("TANDEMQ_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(root, list(words))


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_makes_what_its_configuration_names(run: Callable[..., Result], tmp_path: Path) -> None:
    ours = [block for block in blocks("sh") if block.startswith("tandemq ")]  # openssl's: test_recipes.py
    commands = [shlex.split(line)[1:] for block in ours for line in block.splitlines()]
    assert len(commands) >= 6
    for words in commands:
        result = run(*words)
        assert result.exit_code == 0, (words, result.output)
    (written,) = (each for each in blocks("toml") if "data_dir" in each)
    (tokens,) = (each for each in blocks("toml") if "[tokens]" in each)
    document = tomllib.loads(written)
    assert document["security"]["credentials"] == "/etc/tandemq/a"
    file = tmp_path / "a.toml"
    file.write_text(written.replace("/etc/tandemq/a", str(tmp_path / "a")), encoding="utf-8")
    config = load(file, environ={})
    assert not config.insecure_network
    of_member(config)
    of_witness(str(tmp_path / "witness"))
    (quotas,) = (each for each in blocks("toml") if "quotas" in each)
    file.write_text(file.read_text(encoding="utf-8").replace("[security]\n", quotas), encoding="utf-8")
    assert len(load(file, environ={}).security.quotas) == 2
    port, keys = tokens.removeprefix("[manager]\n").split("\n\n")
    file.write_text(file.read_text(encoding="utf-8").replace("[manager]\n", f"[manager]\n{port}\n") + "\n" + keys)
    assert load(file, environ={}).tokens.audience == "tandemq"
    file.write_text(
        written.replace("[security]", "[links]")
        .replace("credentials", "managers = []\n# ")
        .replace("administrators", "# ")
    )
    with pytest.raises(ConfigError, match="in clear text and by anybody"):
        load(file, environ={})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("billing", "is for principal/billing, not for member/orders/a"),
        ("member/other/a", "is for member/other/a, not for member/orders/a"),
        ("member/orders/b", "is for member/orders/b, not for member/orders/a"),
        ("witness/witness", "is for witness/witness, not for member/orders/a"),
    ],
)
def test_a_member_does_not_start_with_the_certificate_of_somebody_else(
    run: Callable[..., Result], tmp_path: Path, name: str, says: str
) -> None:
    assert run("cert", "init").exit_code == 0
    assert run("cert", "issue", name, "--out", "x").exit_code == 0
    peer = {"peer_member": "b", "peer_address": "h:1", "peer_endpoint": "h:2", "pair": "orders"}
    own = {"member": "a", "data_dir": "/d", "security": {"credentials": str(tmp_path / "x"), "administrators": ["ops"]}}
    config = load(None, own | peer, {})
    with pytest.raises(ConfigError, match=re.escape(says)):
        of_member(config)
    if name != "witness/witness":
        with pytest.raises(ConfigError, match=r"not for witness/NAME"):
            of_witness(str(tmp_path / "x"))


def test_one_that_has_expired_is_refused_at_the_start_and_by_check(run: Callable[..., Result], tmp_path: Path) -> None:
    assert run("cert", "init").exit_code == 0
    issue(tmp_path / "home" / "authority", "witness/witness", tmp_path / "old", lasts=timedelta(hours=-1))
    with pytest.raises(ConfigError, match="expired at"):
        of_witness(str(tmp_path / "old"))
    result = run("cert", "check", "old", "-o", "json")
    assert result.exit_code == 1
    assert "expired at" in result.output
    assert run("cert", "issue", "billing", "--out", "new", "--days", "3").exit_code == 0
    result = run("cert", "check", "new", "-o", "json")
    assert result.exit_code == 0
    assert "soon: it ends in" in result.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("issue", "billing", "--out", "x"), "no authority there"),
        (("show", "nowhere"), "No such file"),
        (("check", "nowhere"), "no such"),
    ],
)
def test_what_is_not_there_is_named(run: Callable[..., Result], words: tuple[str, ...], says: str) -> None:
    result = run("cert", *words)
    assert result.exit_code == 1
    assert says in result.output


def test_what_cannot_be_issued_is_refused_by_name(run: Callable[..., Result]) -> None:
    assert run("cert", "init").exit_code == 0
    for words, says in {
        ("member/a",): "write NAME for a client",
        ("a b",): "use up to 64",
        ("billing", "--host", "h"): "which nobody dials",
        ("member/p/a", "--host", "ä"): "in ASCII",
    }.items():
        result = run("cert", "issue", *words, "--out", "x")
        assert result.exit_code == 1, words
        assert says in result.output
    assert "is there already" in run("cert", "init").output


def test_show_prints_whose_it_is(run: Callable[..., Result]) -> None:
    assert run("cert", "init").exit_code == 0
    assert (
        run("cert", "issue", "member/Orders/a.1", "--out", "x", "--host", "h.test", "--host", "10.0.0.1").exit_code == 0
    )
    facts = json.loads(run("cert", "show", "x", "-o", "json").output)
    assert facts["who"] == "member/Orders/a.1"
    assert facts["uris"] == ["tandemq:member/Orders/a.1"]
    assert {"h.test", "10.0.0.1", "localhost", "127.0.0.1"} < set(facts["names"])


def test_a_pair_is_not_called_as_one_of_its_members(tmp_path: Path) -> None:
    """A single manager called orders is member/orders/orders, and would be one with that member."""
    pair = {"pair": "orders", "peer_address": "h:1", "peer_endpoint": "h:2", "data_dir": "/d"}
    for member, peer in (("orders", "b"), ("b", "orders")):
        names = {"member": member, "peer_member": peer}
        load(None, pair | names, {})
        with pytest.raises(ConfigError, match="'orders' is also the name of a member"):
            load(None, pair | names | {"security": {"credentials": str(tmp_path)}}, {})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--operator", "alice"), "a witness without --credentials sees none"),
        (("--operator", "principal/alice", "--credentials", "x"), "NAME for a client"),
    ],
)
def test_an_operator_that_could_never_be_one_is_refused(
    run: Callable[..., Result], words: tuple[str, ...], says: str
) -> None:
    result = run("witness", "--data-dir", "w", "--listen", "127.0.0.1:7620", *words)
    assert result.exit_code != 0
    assert says in result.output
    assert not Path("w").exists()

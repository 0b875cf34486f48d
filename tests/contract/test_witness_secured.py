"""A witness with a certificate: it takes sets of a pair from that pair's members alone, each as itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from failover.authority import CasDone, CasUnknown, Unreachable, WitnessAuthority
from failover.register import STARTS, Register, claim
from failover.witness import WitnessServer
from tandemq.channels import open_channel
from tandemq.credentials.authority import create, issue
from tandemq.credentials.chosen import opener_of
from tandemq.credentials.files import Credentials
from tests.support.until import OUTER_S

PEOPLE = ("member/pair/a", "member/pair/b", "member/other/a", "principal/a", "principal/carol", "witness/witness")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("people")
    authority = create(folder / "authority").parent
    for who in PEOPLE:
        issue(authority, who, folder / who.replace("/", "-"))
    return {who: folder / who.replace("/", "-") for who in PEOPLE}


@pytest.fixture
async def witness(tmp_path: Path, people: dict[str, Path]) -> AsyncIterator[WitnessServer]:
    credentials = Credentials(people["witness/witness"])
    server = WitnessServer("127.0.0.1:0", tmp_path / "witness", credentials=credentials, operators=["carol"])
    await server.start()
    yield server
    await server.stop()


def authority(
    witness: WitnessServer, directory: Path | None, member: str = "a", name: str = "witness"
) -> WitnessAuthority:
    opener = opener_of(str(directory)) if directory else open_channel
    return WitnessAuthority(f"127.0.0.1:{witness.port}", "pair", member, timeout_s=OUTER_S, opener=opener, name=name)


def first_of(member: str) -> Register:
    return claim(Register(), member=member, epoch=1, members=frozenset({member}), nonce=b"1")


@pytest.mark.parametrize("who", [each for each in PEOPLE if each != "member/pair/a"])
async def test_nobody_sets_a_register_as_another(witness: WitnessServer, people: dict[str, Path], who: str) -> None:
    asked = authority(witness, people[who])
    outcome = await asked.compare_and_set("main", Register(), first_of("a"))
    assert isinstance(outcome, CasUnknown)
    assert "PERMISSION_DENIED only member/pair/a may set a register of pair as a" in outcome.why
    assert await asked.get("main") == Register(), "whoever has a certificate may read, and nothing was set"
    await asked.close()


async def test_a_member_sets_its_own_and_an_operator_puts_it_right(
    witness: WitnessServer, people: dict[str, Path]
) -> None:
    member = authority(witness, people["member/pair/a"])
    outcome = await member.compare_and_set("main", Register(), first_of("a"))
    assert isinstance(outcome, CasDone)
    may = {"principal/a": False, "member/other/a": False, "member/pair/a": False, "principal/carol": True}
    for who, does in may.items():
        asked = authority(witness, people[who])
        forced = await asked.force("main", outcome.register.version, 7, "a", "lost")
        assert isinstance(forced, CasDone) is does, (who, forced)
        assert does or "only an operator of this witness may put a register right" in repr(forced)
        await asked.close()
    await member.close()


async def test_a_member_counts_its_own_starts_alone(witness: WitnessServer, people: dict[str, Path]) -> None:
    member = authority(witness, people["member/pair/a"])
    refused = await member.compare_and_set(f"{STARTS}b", Register(), first_of("a"))
    assert isinstance(refused, CasUnknown)
    assert "PERMISSION_DENIED start/b counts the starts of another member than a" in refused.why
    assert isinstance(await member.compare_and_set(f"{STARTS}a", Register(), first_of("a")), CasDone)
    await member.close()


async def test_a_witness_without_operators_says_how_it_gets_one(tmp_path: Path, people: dict[str, Path]) -> None:
    server = WitnessServer("127.0.0.1:0", tmp_path / "alone", credentials=Credentials(people["witness/witness"]))
    await server.start()
    member = authority(server, people["member/pair/a"])
    forced = await member.force("main", 0, 7, "a", "lost")
    assert "PERMISSION_DENIED this witness has no operators: start it with --operator NAME" in repr(forced)
    await member.close()
    await server.stop()


async def test_it_takes_nobody_without_a_certificate_and_is_believed_by_its_name_alone(
    witness: WitnessServer, people: dict[str, Path]
) -> None:
    plain = authority(witness, None)
    assert isinstance(await plain.get("main"), Unreachable)
    other = authority(witness, people["member/pair/a"], name="another")
    outcome = await other.get("main")
    assert isinstance(outcome, Unreachable)
    assert "Hostname" in outcome.why
    await plain.close()
    await other.close()

"""Certificates and authorities that are exchanged: whoever is connected to whom, at every moment in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import grpc.aio
import pytest
from click.testing import CliRunner

from replica.operations.certificates import SOON_S, Certificates
from tandemq.cli import root
from tandemq.credentials import names
from tandemq.credentials.authority import HOSTS, NEXT_KEY, create, issue, renew, rotate
from tandemq.credentials.files import LOOK_S, Credentials, read
from tandemq.credentials.reading import shown
from tandemq.credentials.sound import problems
from tests.support.handshakes import who_is_seen

MEMBER = "member/orders/a"


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return create(tmp_path / "authority").parent


def files(place: Path) -> list[bytes]:
    return [(place / name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem")]


def test_a_renewed_certificate_has_the_same_names_and_key(authority: Path, tmp_path: Path) -> None:
    place = tmp_path / "a"
    issue(authority, MEMBER, place, hosts=["10.0.0.1", "a.example.com"], lasts=timedelta(days=1))
    before, old = shown((place / "cert.pem").read_bytes()), files(place)
    renew(authority, place)
    after, new = shown((place / "cert.pem").read_bytes()), files(place)
    assert (after.who, set(after.names)) == (MEMBER, {names.dns(MEMBER), *HOSTS, "10.0.0.1", "a.example.com"})
    assert set(after.names) == set(before.names)
    assert after.ends > before.ends
    assert (new[0], new[2]) == (old[0], old[2])
    assert new[1] != old[1]
    renew(authority, place, new_key=True)
    assert files(place)[2] != old[2]
    assert {text for _, text in problems(read(place), place)} == {""}


def test_a_renewal_that_is_killed_half_way_leaves_what_can_be_used(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a"
    issue(authority, MEMBER, place)
    rotate(authority)  # ca.pem is another one too
    real = Path.replace
    moved: list[Path] = []

    class KilledError(Exception):
        pass

    def killed(self: Path, target: Path) -> Path:
        if moved:
            raise KilledError
        moved.append(self)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KilledError):
        renew(authority, place)
    assert moved
    assert {text for _, text in problems(read(place), place)} == {""}


async def test_everybody_connects_at_each_moment_while_the_authority_is_exchanged(
    authority: Path, tmp_path: Path
) -> None:
    server, client = tmp_path / "server", tmp_path / "client"
    issue(authority, MEMBER, server)
    issue(authority, "principal/billing", client)
    first = (authority / "ca.pem").read_bytes()
    for number in (1, 2, 3):
        assert rotate(authority).number == number
        for place in (server, client) if number % 2 else (client, server):
            assert await who_is_seen(server, client, names.dns(MEMBER)) == "principal/billing"
            renew(authority, place)
            assert await who_is_seen(server, client, names.dns(MEMBER)) == "principal/billing"
    assert not (authority / NEXT_KEY).exists()
    assert first not in (server / "ca.pem").read_bytes()
    issue(create(tmp_path / "old").parent, "principal/billing", tmp_path / "stranger")
    with pytest.raises(grpc.aio.AioRpcError):
        await who_is_seen(server, tmp_path / "stranger", names.dns(MEMBER))
    assert rotate(authority).number == 1, "the next one begins anew"


def test_the_commands_take_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEMQ_CONFIG_HOME", str(tmp_path / "home"))

    def run(*words: str) -> dict[str, object]:
        result = CliRunner().invoke(root, ["cert", *words, "-o", "json"])
        assert result.exit_code == 0, result.output
        found = json.loads(result.output)
        assert isinstance(found, dict)
        return found

    run("init")
    run("issue", "billing", "--out", str(tmp_path / "billing"))
    for number in (1, 2, 3):
        assert run("rotate")["step"] == number
        assert run("renew", str(tmp_path / "billing"))["who"] == "principal/billing"
    assert (tmp_path / "billing" / "ca.pem").read_bytes().count(b"BEGIN CERT") == 1


@pytest.fixture
def watched(authority: Path, tmp_path: Path) -> tuple[Certificates, list[str], Callable[[float], None]]:
    issue(authority, MEMBER, tmp_path / "a")
    now = [0.0]
    credentials = Credentials(tmp_path / "a", lambda: now[0])
    notes: list[str] = []
    ends_s = shown(credentials.material.chain).ends.timestamp()
    certificates = Certificates(
        credentials, lambda _kind, text: notes.append(text), lambda: ends_s - SOON_S - 10 + now[0]
    )

    def go_on(seconds: float) -> None:
        now[0] += seconds
        certificates.look(0)

    return certificates, notes, go_on


def test_files_that_cannot_be_used_and_an_end_that_is_near_are_reported_once(
    authority: Path, tmp_path: Path, watched: tuple[Certificates, list[str], Callable[[float], None]]
) -> None:
    certificates, notes, go_on = watched
    path = tmp_path / "a" / "cert.pem"
    good = path.read_bytes()
    go_on(LOOK_S)
    assert (notes, certificates.refused) == ([], False)
    path.write_text("half a fi")
    go_on(LOOK_S)
    go_on(LOOK_S)
    assert certificates.refused
    assert [each.partition(": ")[0] for each in notes] == ["the credentials that were in force stay"]
    path.write_bytes(good)
    go_on(LOOK_S)
    assert (notes[1:], certificates.refused) == (["the credentials can be used again"], False)
    go_on(20.0)
    go_on(LOOK_S)
    assert [each.partition(" ends at ")[0] for each in notes[2:]] == [f"the certificate in {path.parent}"]
    before = certificates.ends_s
    renew(authority, path.parent, lasts=timedelta(days=200))
    go_on(LOOK_S)
    assert (certificates.exchanged, len(notes)) == (1, 3)
    assert certificates.ends_s > before

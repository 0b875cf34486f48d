"""What a development pair has of certificates: made once, kept, and made anew where they are of no more use."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tandemq.credentials import development
from tandemq.credentials.authority import AUTHORITY_KEY, create, ensure, issue, rotate
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.development import LEFT, prepare
from tandemq.credentials.files import AUTHORITY, read
from tandemq.credentials.reading import shown
from tandemq.credentials.sound import problems

PEOPLE = {"a": "member/dev/a", "witness": "witness/witness", "client": "principal/developer"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    assert prepare(tmp_path / "pair", tmp_path / "authority", PEOPLE) == list(PEOPLE)
    return tmp_path


def again(place: Path) -> list[str]:
    return prepare(place / "pair", place / "authority", PEOPLE)


def test_each_can_be_used_by_whom_it_is_for_and_is_made_once(place: Path) -> None:
    for name, who in PEOPLE.items():
        material = read(place / "pair" / name)
        assert shown(material.chain).who == who
        assert {problem for _, problem in problems(material, place / "pair" / name)} == {""}
    assert again(place) == []


def test_what_is_of_no_more_use_is_made_anew_and_nothing_else(place: Path) -> None:
    pair = place / "pair"
    (pair / "a" / "key.pem").chmod(0o644)
    assert again(place) == ["a"]
    (pair / "a" / "cert.pem").write_text("half a fi")
    assert again(place) == ["a"]
    issue(place / "authority", PEOPLE["a"], pair / "witness")
    assert again(place) == ["witness"]
    issue(place / "authority", PEOPLE["client"], pair / "client", lasts=LEFT - timedelta(days=1))
    assert again(place) == ["client"]
    rotate(place / "authority")
    assert again(place) == list(PEOPLE)
    assert again(place) == []


def test_an_authority_of_another_user_is_not_written_over(place: Path, tmp_path: Path) -> None:
    (tmp_path / "authority" / AUTHORITY_KEY).unlink()
    with pytest.raises(BadCredentials, match="somebody's credentials"):
        again(place)


@pytest.mark.parametrize("made", [create, ensure])
def test_an_authority_whose_maker_was_killed_half_way_is_made_whole(
    tmp_path: Path, made: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key was there and no certificate: neither could it be used nor another one be made."""

    class KilledError(Exception):
        """Here the process ends."""

    def killed(_directory: Path, _files: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr("tandemq.credentials.authority._exchange", killed)
        with pytest.raises(KilledError):
            create(tmp_path / "authority")
    key = (tmp_path / "authority" / AUTHORITY_KEY).read_bytes()
    assert callable(made)
    assert made(tmp_path / "authority") == tmp_path / "authority" / AUTHORITY
    assert (tmp_path / "authority" / AUTHORITY_KEY).read_bytes() == key
    assert development.prepare(tmp_path / "pair", tmp_path / "authority", PEOPLE) == list(PEOPLE)
    with pytest.raises(BadCredentials, match="is there already"):
        create(tmp_path / "authority")


def test_a_half_written_key_of_an_authority_is_named(tmp_path: Path) -> None:
    (tmp_path / "authority").mkdir()
    (tmp_path / "authority" / AUTHORITY_KEY).write_text("-----BEGIN PRI")
    with pytest.raises(BadCredentials, match="remove it"):
        ensure(tmp_path / "authority")

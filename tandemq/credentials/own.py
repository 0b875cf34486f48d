"""Decides whether credentials are those of the member or the witness that is about to show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tandemq.config import ConfigError
from tandemq.credentials import names
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.files import CHAIN, Credentials, Material

if TYPE_CHECKING:
    from tandemq.config import ManagerConfig


def of_member(config: ManagerConfig) -> Credentials:
    """Raises ConfigError for those of somebody else, or of no use.

    A single manager is `member/MEMBER/MEMBER`: it has no pair, and must not be taken for a member of one.
    """
    return _own(config.security.credentials, who_is(config), "[security] credentials")


def who_is(config: ManagerConfig) -> str:
    """What its certificate has to say."""
    return names.member(config.pair or config.member, config.member)


def of_witness(directory: str) -> Credentials:
    """Raises ConfigError for those of somebody else, or of no use."""
    return _own(directory, "witness/", "--credentials")


def _own(directory: str, who: str, key: str) -> Credentials:
    path = Path(directory)
    try:
        return Credentials(path, check=lambda material: _check(material, path, who))
    except BadCredentials as error:
        raise ConfigError(f"{key} = {directory!r}: {error}") from error


def _check(material: Material, path: Path, who: str) -> None:
    """Raises BadCredentials for a certificate of somebody else, or one that nobody would take."""
    from tandemq.credentials.reading import shown
    from tandemq.credentials.sound import problems

    if material.shows_token:
        raise BadCredentials(f"{path}: holds a token, and {who} needs a certificate: `tandemq cert issue` makes one")
    try:
        found = shown(material.chain)
        unsound = next((text for _, text in problems(material, path) if text), "")
    except ValueError as error:
        raise BadCredentials(f"{path}: {error}") from error
    if not (found.who == who or (who.endswith("/") and found.who.startswith(who))):
        wanted = f"{who}NAME" if who.endswith("/") else who
        says = found.who or ", ".join(found.uris) or "nobody"
        text = f"{path / CHAIN} is for {says}, not for {wanted}; `tandemq cert issue {wanted} --out DIR` makes one"
        raise BadCredentials(text)
    if unsound:
        raise BadCredentials(unsound)

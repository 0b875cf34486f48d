"""Decides whether whoever is shown a certificate would take it: its kind of key, authority, time, and what it is for.

Imports `cryptography`, which is not quick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from tandemq.credentials import names
from tandemq.credentials.files import AUTHORITY, CHAIN, Material
from tandemq.credentials.reading import Shown, problem_of_key, problem_of_time, shown


def problems(material: Material, directory: Path) -> Iterator[tuple[str, str]]:
    """What was looked at, and what is wrong with it and what to do; empty: nothing. Raises ValueError."""
    path = directory / CHAIN
    found = shown(material.chain)
    yield "key", problem_of_key(found, str(path))
    yield "name", _problem_of_name(found, path)
    yield "authority", _problem_of_chain(material, path)
    yield "time", problem_of_time(found, str(path))


def _problem_of_name(found: Shown, path: Path) -> str:
    if not found.who:
        return f"{path} has {', '.join(found.uris) or 'no URI'}: it is nobody's here"
    dialled = names.dns(found.who)
    if dialled and dialled not in found.names:
        return f"{path} is for {found.who}, and lacks the name {dialled} in DNS, by which it is expected"
    wanted = ["clientAuth", *(["serverAuth"] if dialled else [])]
    if missing := [use for use in wanted if use not in found.uses]:
        return f"{path} is for {found.who}, and its extended key usage lacks {' and '.join(missing)}"
    return ""


def _problem_of_chain(material: Material, path: Path) -> str:
    """Whether it leads to an authority in ca.pem, by itself or over those that stand behind it."""
    current, *between = x509.load_pem_x509_certificates(material.chain)
    known = x509.load_pem_x509_certificates(material.authority)
    while not _issuer_of(current, known):
        above = _issuer_of(current, between)
        if above is None:
            return f"{path} was issued by {current.issuer.rfc4514_string()}, which is not in {AUTHORITY} beside it"
        between.remove(above)
        current = above
    return ""


def _issuer_of(found: x509.Certificate, among: Sequence[x509.Certificate]) -> x509.Certificate | None:
    for each in among:
        try:
            found.verify_directly_issued_by(each)
        except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
            continue
        return each
    return None

"""What stands in a certificate; it judges nothing but its time. Imports `cryptography`, which is not quick."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from cryptography import x509

from tandemq.credentials.names import who_of


class Shown(NamedTuple):
    """A certificate, as people see it."""

    who: str
    """`member/PAIR/NAME`, `witness/NAME`, `principal/NAME`; empty: nobody here."""
    names: tuple[str, ...]
    """In DNS, and addresses."""
    uris: tuple[str, ...]
    begins: datetime
    ends: datetime
    authority: str
    serial: str


def shown(pem: bytes) -> Shown:
    """The first certificate in it. Raises ValueError."""
    return _shown(x509.load_pem_x509_certificate(pem))


def from_der(data: bytes) -> Shown:
    """Raises ValueError."""
    return _shown(x509.load_der_x509_certificate(data))


def problem_of_time(found: Shown, where: str) -> str:
    """Empty while it is valid."""
    now = datetime.now(UTC)
    if now > found.ends:
        return f"{where} expired at {found.ends.isoformat()}: issue a new one"
    if now < found.begins:
        return f"{where} is valid from {found.begins.isoformat()} on, and it is {now.isoformat()} here: see the clock"
    return ""


def _shown(found: x509.Certificate) -> Shown:
    names: list[str] = []
    uris: list[str] = []
    try:
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        alternatives = None
    if alternatives is not None:
        uris = list(alternatives.get_values_for_type(x509.UniformResourceIdentifier))
        names = list(alternatives.get_values_for_type(x509.DNSName))
        names += [str(each) for each in alternatives.get_values_for_type(x509.IPAddress)]
    return Shown(
        who_of(uris),
        tuple(names),
        tuple(uris),
        found.not_valid_before_utc,
        found.not_valid_after_utc,
        found.issuer.rfc4514_string(),
        f"{found.serial_number:x}",
    )

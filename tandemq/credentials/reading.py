"""What stands in a certificate, and what gRPC can do with it. Imports `cryptography`, which is not quick."""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from tandemq.credentials.names import who_of

CURVES = ("EC secp256r1", "EC secp384r1")
"""P-521 is not among them: BoringSSL, which gRPC is built with, verifies no handshake that is signed with it."""
RSA_BITS_MIN = 2_048
USES = MappingProxyType({ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth", ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth"})


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
    key: str
    """Its kind, as `EC secp256r1` or `RSA 2048`."""
    uses: frozenset[str]
    """`clientAuth`, `serverAuth`: what its extended key usage lets it be; both when it has none."""


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


def problem_of_key(found: Shown, where: str) -> str:
    """Empty for a kind that gRPC signs and checks handshakes with: OpenSSL, and so Python's ssl, know more."""
    if found.key in CURVES or (found.key.startswith("RSA ") and int(found.key[4:]) >= RSA_BITS_MIN):
        return ""
    return (
        f"{where} has a key of the kind {found.key}, with which gRPC makes no connection: "
        f"use {', '.join(CURVES)}, or RSA of {RSA_BITS_MIN} bits or more"
    )


def kind_of(key: object) -> str:
    """Of a public key."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"EC {key.curve.name}"
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size}"
    return type(key).__name__.removesuffix("PublicKey").removeprefix("_")


def _kind(found: x509.Certificate) -> str:
    try:
        return kind_of(found.public_key())
    except (UnsupportedAlgorithm, ValueError):
        return found.public_key_algorithm_oid.dotted_string


def _uses(found: x509.Certificate) -> frozenset[str]:
    try:
        asked = set(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return frozenset(USES.values())
    if ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in asked:
        return frozenset(USES.values())
    return frozenset(name for use, name in USES.items() if use in asked)


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
        _kind(found),
        _uses(found),
    )

"""Certificates that OpenSSL takes and nobody here would: refused at the start, with what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tandemq.config import ConfigError, ManagerConfig
from tandemq.config_security import Security
from tandemq.credentials.authority import create, issue
from tandemq.credentials.files import Credentials, read
from tandemq.credentials.own import of_member
from tandemq.credentials.sound import problems
from tests.support.handshakes import who_is_seen

MEMBER = "member/orders/a"
URI = f"tandemq:{MEMBER}"
DNS = "a.orders.member.tandemq"
BOTH = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)

KINDS: dict[str, tuple[Callable[[], Any], bool]] = {
    "EC secp256r1": (lambda: ec.generate_private_key(ec.SECP256R1()), True),
    "EC secp384r1": (lambda: ec.generate_private_key(ec.SECP384R1()), True),
    "RSA 2048": (lambda: rsa.generate_private_key(65537, 2048), True),
    "EC secp521r1": (lambda: ec.generate_private_key(ec.SECP521R1()), False),
    "EC secp256k1": (lambda: ec.generate_private_key(ec.SECP256K1()), False),
    "Ed25519": (ed25519.Ed25519PrivateKey.generate, False),
}


@dataclass
class Maker:
    """Certificates that `tandemq cert issue` would not make."""

    place: Path
    key: Any = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    uri: str = URI
    names: tuple[str, ...] = (DNS, "localhost")
    uses: Iterable[x509.ObjectIdentifier] = BOTH

    def write(self) -> Path:
        """Beside an authority's; the directory."""
        if not (self.place / "ca" / "ca.pem").exists():
            create(self.place / "ca")
        authority = x509.load_pem_x509_certificate((self.place / "ca" / "ca.pem").read_bytes())
        signer = serialization.load_pem_private_key((self.place / "ca" / "ca-key.pem").read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        now = datetime.now(UTC)
        uri = x509.UniformResourceIdentifier._init_without_validation(self.uri)
        alternatives = [uri, *map(x509.DNSName, self.names)]
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made by hand")]))
            .issuer_name(authority.subject)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        )
        if uses := list(self.uses):
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        out = self.place / "made"
        out.mkdir(mode=0o700, exist_ok=True)
        private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (out / "ca.pem").write_bytes(authority.public_bytes(Encoding.PEM))
        (out / "cert.pem").write_bytes(builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM))
        (out / "key.pem").write_bytes(self.key.private_bytes(Encoding.PEM, *private))
        for path in out.iterdir():
            path.chmod(0o600)
        return out


def started(place: Path) -> Credentials:
    return of_member(ManagerConfig(member="a", data_dir="d", pair="orders", security=Security(credentials=str(place))))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kind_of_key_is_taken_at_the_start_exactly_if_grpc_connects_with_it(tmp_path: Path, kind: str) -> None:
    make, good = KINDS[kind]
    place = Maker(tmp_path, make()).write()
    issue(tmp_path / "ca", "principal/billing", tmp_path / "client")
    try:
        connects = await who_is_seen(place, tmp_path / "client", DNS) == "principal/billing"
    except (grpc.aio.AioRpcError, RuntimeError):
        connects = False
    assert connects is good
    if good:
        started(place)
        return
    with pytest.raises(ConfigError, match=rf"cert\.pem has a key of the kind {kind}, .*use EC secp256r1"):
        started(place)


async def test_a_uri_that_ends_at_a_nul_is_nobodys(tmp_path: Path) -> None:
    """gRPC hands it over as that of the member before the NUL."""
    issue_to = Maker(tmp_path).write()
    server = tmp_path / "server"
    issue(tmp_path / "ca", MEMBER, server)
    assert await who_is_seen(server, issue_to, DNS) == MEMBER
    for uri in (f"{URI}\0.evil", f"{URI}\0"):
        place = Maker(tmp_path, uri=uri).write()
        assert await who_is_seen(server, place, DNS) == ""
        with pytest.raises(ConfigError, match="is for"):
            started(place)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"names": ("localhost",)}, f"lacks the name {DNS} in DNS"),
        ({"uses": BOTH[:1]}, "its extended key usage lacks serverAuth"),
        ({"uses": BOTH[1:]}, "its extended key usage lacks clientAuth"),
        ({"uses": ()}, ""),
    ],
)
def test_a_members_certificate_with_which_nobody_could_reach_it_is_refused(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    place = Maker(tmp_path, **changes).write()
    if not says:
        started(place)
        return
    with pytest.raises(ConfigError, match=says):
        started(place)


def test_a_member_does_not_start_with_a_certificate_that_its_authority_does_not_cover(tmp_path: Path) -> None:
    place = Maker(tmp_path).write()
    (place / "ca.pem").write_bytes(create(tmp_path / "another").read_bytes())
    with pytest.raises(ConfigError, match=r"which is not in ca\.pem"):
        started(place)
    both = (tmp_path / "another" / "ca.pem").read_bytes() + (tmp_path / "ca" / "ca.pem").read_bytes()
    (place / "ca.pem").write_bytes(both)
    started(place)
    # Something that stands behind it is no reason to believe it.
    (place / "ca.pem").write_bytes((tmp_path / "another" / "ca.pem").read_bytes())
    chain = place / "cert.pem"
    chain.write_bytes(chain.read_bytes() + (tmp_path / "ca" / "ca.pem").read_bytes())
    assert "not in ca.pem" in dict(problems(read(place), place))["authority"]

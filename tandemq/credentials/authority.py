"""A developers' authority: makes its own certificate and issues others; decides nothing about who may have one.

For production the same files come from an authority that is kept with care (docs/SECURITY.md).
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tandemq.credentials import names
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.files import AUTHORITY, CHAIN, KEY, read
from tandemq.credentials.reading import shown

AUTHORITY_KEY, NEXT_KEY = "ca-key.pem", "ca-next-key.pem"
AUTHORITY_LASTS, LASTS = timedelta(days=3_650), timedelta(days=90)
BACKDATED = timedelta(hours=1)
"""Clocks differ: a certificate of this moment is to be valid at another machine too."""
HOSTS = ("localhost", "127.0.0.1", "::1")
"""Where a pair of a developer is dialled; in each certificate of a member or a witness."""


def create(directory: Path) -> Path:
    """Makes an authority; its certificate. Raises BadCredentials where there is one already."""
    made, is_new = _created(directory)
    if not is_new:
        text = f"{directory / AUTHORITY_KEY} is there already; use it, or choose another --dir"
        raise BadCredentials(text)
    return made


def ensure(directory: Path) -> Path:
    """The certificate of the authority there, which is made where there is none. Raises BadCredentials."""
    return _created(directory)[0]


def _created(directory: Path) -> tuple[Path, bool]:
    """The certificate, and whether it was made now. One that was killed half-way is made whole with its own key."""
    if (directory / AUTHORITY).exists() and not (directory / AUTHORITY_KEY).exists():
        raise BadCredentials(f"{directory} holds somebody's credentials: choose another --dir")
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone_in(directory):
        if (directory / AUTHORITY_KEY).exists() and (directory / AUTHORITY).exists():
            return directory / AUTHORITY, False
        key, certificate = _new_authority(_half_made(directory))
        with suppress(FileExistsError):
            _write_new(directory / AUTHORITY_KEY, _pem_of(key), 0o600)
        _exchange(directory, {AUTHORITY: certificate.public_bytes(serialization.Encoding.PEM)})
    return directory / AUTHORITY, True


def _half_made(directory: Path) -> ec.EllipticCurvePrivateKey | None:
    """The key of one whose maker was killed before it had a certificate. Raises BadCredentials."""
    try:
        return _read_key(directory / AUTHORITY_KEY)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        text = f"{directory / AUTHORITY_KEY} has no {AUTHORITY} beside it, and cannot be read: {error}"
        raise BadCredentials(f"{text}; remove it, or choose another --dir") from error


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Nobody else makes an authority there meanwhile."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


class Step(NamedTuple):
    """Of the exchange of an authority. After each of them, everybody's credentials are renewed before the next."""

    number: int
    what: str


def rotate(directory: Path) -> Step:
    """Takes the next step of exchanging the authority for a new one; both are in force in between.

    1: the new one is believed as well; 2: it issues; 3: the old one is believed no more. Raises BadCredentials.
    """
    _, current = _load(directory)
    known = x509.load_pem_x509_certificates((directory / AUTHORITY).read_bytes())
    following = _next(directory, known)
    if following is not None:
        (directory / NEXT_KEY).replace(directory / AUTHORITY_KEY)
        return Step(2, "the new authority issues; the old one is still believed")
    if len(known) > 1:
        _exchange(directory, {AUTHORITY: current.public_bytes(serialization.Encoding.PEM)})
        return Step(3, "the old authority is believed no more")
    key, certificate = _new_authority()
    both = b"".join(each.public_bytes(serialization.Encoding.PEM) for each in (current, certificate))
    _exchange(directory, {NEXT_KEY: _pem_of(key), AUTHORITY: both})
    return Step(1, "a new authority is believed as well; the old one still issues")


def renew(authority: Path, out: Path, *, lasts: timedelta = LASTS, new_key: bool = False) -> x509.Certificate:
    """A new certificate for whoever the one in `out` is for, with its names and, unless `new_key`, its key.

    With the same key what is in `out` can be used at each moment, also when this process is killed: ca.pem and cert.pem
    are exchanged one by one, and each goes with what was there before. Raises BadCredentials, ValueError.
    """
    old = shown(read(out).chain)
    if not old.who:
        raise BadCredentials(f"{out / CHAIN} has {', '.join(old.uris) or 'no URI'}: it is nobody's here")
    hosts = [name for name in old.names if name not in {names.dns(old.who), *HOSTS}]
    key = None if new_key else serialization.load_pem_private_key((out / KEY).read_bytes(), None)
    if key is not None and not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCredentials(f"{out / KEY}: was not made by `tandemq cert issue`; use --new-key")
    return issue(authority, old.who, out, hosts=hosts, lasts=lasts, key=key)


def issue(
    authority: Path,
    who: str,
    out: Path,
    *,
    hosts: Sequence[str] = (),
    lasts: timedelta = LASTS,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> x509.Certificate:
    """Writes ca.pem, cert.pem and key.pem for `member/PAIR/NAME`, `witness/NAME` or `principal/NAME`.

    What is there is replaced, file by file. `hosts`: where a member or a witness is dialled besides `HOSTS`.
    `key`: None: a new one. `lasts`: from now on; below zero, one that has expired already. Raises BadCredentials.
    """
    if problem := names.problem_of(who):
        raise BadCredentials(problem)
    key_of_authority, of_authority = _load(authority)
    keeps_key = key is not None
    if key is None:
        key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, who[-64:])])
    dialled = names.dns(who)
    if hosts and not dialled:
        raise BadCredentials(f"{who} is a client, which nobody dials: leave out --host")
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if dialled else [])]
    alternatives: list[x509.GeneralName] = [x509.UniformResourceIdentifier(names.uri(who))]
    if dialled:
        alternatives += [x509.DNSName(dialled), *(_host(each) for each in dict.fromkeys((*HOSTS, *hosts)))]
    known = of_authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        _builder(subject, of_authority.subject, key, lasts)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known), critical=False)
        .sign(key_of_authority, hashes.SHA256())
    )
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    files = {AUTHORITY: (authority / AUTHORITY).read_bytes(), CHAIN: pem}
    _exchange(out, files if keeps_key else {**files, KEY: _pem_of(key)})
    read(out)
    return certificate


def _new_authority(
    key: ec.EllipticCurvePrivateKey | None = None,
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tandemq developers {os.urandom(4).hex()}")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(name, name, key, AUTHORITY_LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def _load(authority: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """The key that issues, and its certificate."""
    try:
        key = _read_key(authority / AUTHORITY_KEY)
        known = x509.load_pem_x509_certificates((authority / AUTHORITY).read_bytes())
    except FileNotFoundError:
        raise BadCredentials(f"{authority}: no authority there; make one with `tandemq cert init`") from None
    except (OSError, ValueError, TypeError) as error:
        raise BadCredentials(f"{authority}: the authority cannot be read: {error}") from error
    for each in known:
        if each.public_key() == key.public_key():
            return key, each
    raise BadCredentials(f"{authority}: {AUTHORITY} holds no certificate of {AUTHORITY_KEY}")


def _next(authority: Path, known: Sequence[x509.Certificate]) -> ec.EllipticCurvePrivateKey | None:
    """The key of an authority that is believed and does not issue yet."""
    try:
        key = _read_key(authority / NEXT_KEY)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise BadCredentials(f"{authority / NEXT_KEY}: {error}") from error
    return key if any(each.public_key() == key.public_key() for each in known) else None


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCredentials(f"{path}: is no key of `tandemq cert init`")
    return key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC).replace(microsecond=0)
    ends = now + lasts
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - BACKDATED)
        .not_valid_after(ends)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text)
    except ValueError as error:
        raise BadCredentials(f"--host {text!r}: write a name of DNS in ASCII, or an address") from error


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Nobody else can read it at any moment. Raises FileExistsError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)


def _exchange(directory: Path, files: Mapping[str, bytes]) -> None:
    """Each all or nothing: a member may read at any moment. All are on disk before the first takes its place."""
    drafts = {name: directory / f"{name}.{os.getpid()}.tmp" for name in files}
    for name, draft in drafts.items():
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(files[name])
            file.flush()
            os.fsync(file.fileno())
    for name, draft in drafts.items():
        draft.replace(directory / name)

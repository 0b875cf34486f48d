"""A directory of credentials: `ca.pem`, and `cert.pem` with `key.pem`, or a `token`. Decides whether they can be used,
and which are current.

They may be exchanged at any moment, one file after the other. What cannot be used is refused at the start; later the
last good ones stay in force, and the log says so once.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

from tandemq.ambient import monotonic_s
from tandemq.credentials.bad import BadCredentials

AUTHORITY, CHAIN, KEY = "ca.pem", "cert.pem", "key.pem"
TOKEN = "token"  # noqa: S105 - the name of a file
"""Of a client that has no certificate: `tandemq.credentials.token`."""
LOOK_S = 1.0
"""How long a client may go on with files that were exchanged. A server looks at each handshake."""
FILE_BYTES_MAX = 1 << 20
OTHERS = 0o077  # of a file's mode: what its group and everybody else may
READ_BY_GROUP = 0o040
WRITE_BY_OTHERS = 0o022
STICKY = 0o1000  # of a directory: only who owns a file may exchange it, as in the volumes of Kubernetes
CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
LOOKS_MAX = 8

log = logging.getLogger("tandemq.credentials")

_Mark = tuple[int, int, int, int]


class Material(NamedTuple):
    """What stands in the files, in PEM."""

    authority: bytes
    chain: bytes
    """Empty, as the key is: it is of a client that shows a token instead."""
    key: bytes

    @property
    def shows_token(self) -> bool:
        """Whether a token says whose they are, and no certificate."""
        return not self.chain

    def __repr__(self) -> str:
        """Without the key, which is shown to nobody."""
        return f"Material({len(self.chain)} bytes of certificates)"


class Credentials:
    """The credentials in one directory. Safe from any thread: gRPC asks in its own. Raises BadCredentials."""

    def __init__(
        self,
        directory: Path,
        now_s: Callable[[], float] = monotonic_s,
        check: Callable[[Material], None] | None = None,
    ) -> None:
        """check: raises BadCredentials for what must not come into force here, at the start and at each exchange."""
        if not directory.is_dir():
            raise BadCredentials(f"{directory}: no such directory; `tandemq cert issue NAME --out DIR` makes one")
        self.directory = directory
        self._now_s = now_s
        self._lock = threading.Lock()
        self._marks, self._material = _first(directory)
        self._check = check
        if check is not None:
            check(self._material)
        self._generation = 1
        self._looked_s = now_s()
        self._refused = ""

    def now(self) -> Material:
        """Those in force, after a look at the files."""
        with self._lock:
            self._look()
            return self._material

    def generation(self) -> int:
        """Grows when others come into force. The files are looked at once a second."""
        if self._now_s() - self._looked_s >= LOOK_S:
            with self._lock:
                self._look()
        return self._generation

    @property
    def refused(self) -> str:
        """Why what is in the files now is not in force; empty: it is, as far as anybody has looked."""
        return self._refused

    @property
    def material(self) -> Material:
        """Those in force, without a look at the files."""
        return self._material

    def _look(self) -> None:
        self._looked_s = self._now_s()
        try:
            marks = _marks(self.directory)
            if marks == self._marks:
                self._refused = ""  # those in force have been put back
                return
            material = read(self.directory)
            if _marks(self.directory) != marks:
                return  # somebody is writing: the next look
            if self._check is not None:
                self._check(material)
        except BadCredentials as error:
            # Not remembered as seen: a key and its certificate are exchanged one after the other.
            if str(error) != self._refused:
                self._refused = str(error)
                log.error("the credentials that were in force stay: %s", error)
            return
        self._marks, self._refused = marks, ""
        if material != self._material:
            self._material = material
            self._generation += 1
            log.warning("new credentials are in force, from %s", self.directory)


def _first(directory: Path) -> tuple[tuple[_Mark, ...], Material]:
    """At the start, where there are no older ones: files that are being exchanged are looked at again. Raises
    BadCredentials.
    """
    for left in reversed(range(LOOKS_MAX)):
        before = _marks_or_none(directory)
        try:
            material = read(directory)
        except BadCredentials:
            if not left or before == _marks_or_none(directory):
                raise
            continue
        if before is not None:  # what is exchanged meanwhile is seen by the next look
            return before, material
    raise BadCredentials(f"{directory}: its files changed {LOOKS_MAX} times while they were read; try again")


def read(directory: Path) -> Material:
    """The files, if they can be used together; a token is read by `TokenFile`. Raises BadCredentials."""
    by_token = (directory / TOKEN).exists()
    if by_token and (both := [name for name in (CHAIN, KEY) if (directory / name).exists()]):
        text = f"{directory}: holds {TOKEN} and {both[0]}: a directory is of one client; keep the one or the other"
        raise BadCredentials(text)
    names = (AUTHORITY,) if by_token else (AUTHORITY, CHAIN, KEY)
    material = Material(*[_read_file(directory / name) for name in names], *[b""] * (3 - len(names)))
    if not by_token:
        check_private(directory / KEY)
    _check_kept(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=_certificates(material.authority))
    except (ssl.SSLError, ValueError) as error:
        raise BadCredentials(f"{directory / AUTHORITY}: is not made of certificates in PEM: {_text(error)}") from error
    if by_token:
        return material
    try:
        context.load_cert_chain(directory / CHAIN, directory / KEY, password=_no_password)
    except (ssl.SSLError, ValueError, OSError) as error:
        text = f"{directory / CHAIN} and {KEY} do not go together, or are not in PEM: {_text(error)}"
        raise BadCredentials(text) from error
    return material


def client_context(directory: Path) -> ssl.SSLContext:
    """TLS 1.3 for Python's own sockets, as whoever has these credentials; a token is not shown by it. Raises
    BadCredentials.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    material = read(directory)
    context.load_verify_locations(cadata=_certificates(material.authority))
    if material.shows_token:
        return context
    try:
        context.load_cert_chain(directory / CHAIN, directory / KEY, password=_no_password)
    except (ssl.SSLError, OSError) as error:  # exchanged since
        raise BadCredentials(f"{directory}: {_text(error)}") from error
    return context


def server_context(directory: Path) -> ssl.SSLContext:
    """TLS 1.3 for Python's own sockets, as whoever has these credentials and is called: a certificate is asked for, and
    who has none may speak all the same. Raises BadCredentials.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_OPTIONAL
    material = read(directory)
    context.load_verify_locations(cadata=_certificates(material.authority))
    try:
        context.load_cert_chain(directory / CHAIN, directory / KEY, password=_no_password)
    except (ssl.SSLError, OSError) as error:  # exchanged since
        raise BadCredentials(f"{directory}: {_text(error)}") from error
    return context


def _certificates(data: bytes) -> str:
    """Without what stands between them, as comments do, which may be in any alphabet. Raises ValueError."""
    found = CERTIFICATE.findall(data)
    if not found or len(found) != data.count(b"-----BEGIN "):
        raise ValueError("one is cut off, or something else stands there" if found else "there is none")
    return b"\n".join(found).decode("ascii")


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        names = f"{AUTHORITY}, {CHAIN} and {KEY}, or {AUTHORITY} and {TOKEN}"
        raise BadCredentials(f"{path}: no such file; a directory of credentials holds {names}") from None
    except OSError as error:
        raise BadCredentials(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise BadCredentials(f"{path}: has more than {FILE_BYTES_MAX} bytes; is it another file?")
    return data


def check_private(path: Path) -> None:
    """Raises BadCredentials for a file that others may read. The group may where the file is root's and this process is
    not: so are the secrets of Kubernetes given to a process, by its group (as PostgreSQL has it).
    """
    try:
        found = path.stat()
    except OSError as error:  # exchanged since it was read
        raise BadCredentials(f"{path}: cannot be read: {error.strerror}") from error
    mode, by_group = found.st_mode & 0o777, found.st_uid == 0 and os.geteuid() != 0
    if mode & (OTHERS & ~READ_BY_GROUP if by_group else OTHERS):
        raise BadCredentials(f"{path}: others may read or change it (mode {mode:04o}); run: chmod 600 {path}")


def _check_kept(directory: Path) -> None:
    """Who may exchange ca.pem decides who is believed. Raises BadCredentials."""
    for path in (directory, directory / AUTHORITY, directory / CHAIN):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:  # of a client with a token; what has to be there was read before
            continue
        except OSError as error:
            raise BadCredentials(f"{path}: cannot be read: {error.strerror}") from error
        if mode & WRITE_BY_OTHERS and not (path == directory and mode & STICKY):
            raise BadCredentials(f"{path}: others may change it (mode {mode & 0o7777:04o}); run: chmod go-w {path}")


def _marks_or_none(directory: Path) -> tuple[_Mark, ...] | None:
    try:
        return _marks(directory)
    except BadCredentials:
        return None


def _marks(directory: Path) -> tuple[_Mark, ...]:
    """What changes with the files."""
    try:
        found = [os.stat(directory / AUTHORITY)]  # noqa: PTH116 - at each handshake
        if not (directory / TOKEN).exists():
            found += [os.stat(directory / name) for name in (CHAIN, KEY)]  # noqa: PTH116 - at each handshake
    except OSError as error:
        raise BadCredentials(f"{error.filename}: cannot be read: {error.strerror}") from error
    return tuple((each.st_mtime_ns, each.st_size, each.st_ino, each.st_mode) for each in found)


def _no_password() -> NoReturn:
    raise ValueError("the key is encrypted; keep it in clear, with mode 0600")


def _text(error: BaseException) -> str:
    return getattr(error, "reason", None) or str(error)

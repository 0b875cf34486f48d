"""The token of a client: a file that is read again when it has changed. Decides whether it can be sent, never what it
means: that is for whoever is called.

Nothing here shows a token to anybody, nor writes it to a log.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.files import check_private
from tandemq.credentials.names import principal

TOKEN_BYTES_MAX = 6 << 10
"""Of a call gRPC takes 8 KiB of metadata by default, everything else in it included."""
HEADER = "authorization"
SCHEME = "Bearer "
FORM = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")

log = logging.getLogger("tandemq.credentials")


class TokenFile:
    """A file with one token. Safe from any thread: gRPC asks in its own. Raises BadCredentials."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._mark = _mark(path)
        self._token = read_token(path)
        self._refused = ""

    def __repr__(self) -> str:
        """Without the token, which is shown to nobody."""
        return f"TokenFile({str(self._path)!r})"

    def now(self) -> str:
        """The token in the file; the last good one while what stands there cannot be sent, and the log says so once."""
        with self._lock:
            try:
                if (mark := _mark(self._path)) != self._mark:
                    self._token, self._mark, self._refused = read_token(self._path), mark, ""
            except BadCredentials as error:
                if str(error) != self._refused:
                    self._refused = str(error)
                    log.error("the token that was in use stays: %s", error)
            return self._token


class TokenMetadata(grpc.AuthMetadataPlugin):
    """Puts the token of now into each call. gRPC asks for it over TLS alone."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file

    def __call__(self, context: grpc.AuthMetadataContext, callback: Callable[..., Any]) -> None:
        """See AuthMetadataPlugin; called in a thread of gRPC."""
        del context
        callback(((HEADER, f"{SCHEME}{self._file.now()}"),), None)


def read_token(path: Path) -> str:
    """The token in that file, as it is sent. Raises BadCredentials."""
    try:
        with path.open("rb") as file:
            data = file.read(TOKEN_BYTES_MAX + 3)
    except OSError as error:
        raise BadCredentials(f"{path}: cannot be read: {error.strerror}") from error
    check_private(path)
    token = data.strip()
    if len(token) > TOKEN_BYTES_MAX:
        text = f"{path}: a token has at most {TOKEN_BYTES_MAX} bytes; ask for one with fewer claims"
        raise BadCredentials(text)
    if not FORM.fullmatch(token):
        raise BadCredentials(f"{path}: is no token: three parts in base64url, joined by dots, on one line")
    return token.decode("ascii")


class Claims(NamedTuple):
    """What a token says of itself, for people: nobody has verified it."""

    who: str
    issuer: str
    audience: str
    ends: datetime | None


def claims_of(token: str) -> Claims:
    """Raises BadCredentials."""
    try:
        body = token.split(".")[1]
        said: Any = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        ends = datetime.fromtimestamp(said["exp"], UTC) if "exp" in said else None
        who = principal(str(said.get("sub", "")))
        return Claims(who, str(said.get("iss", "")), str(said.get("aud", "")), ends)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, OSError, RecursionError):
        raise BadCredentials("the token's second part is no JSON object with claims; ask for a new one") from None


def _mark(path: Path) -> tuple[int, int, int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116 - at each call
    except OSError as error:
        raise BadCredentials(f"{path}: cannot be read: {error.strerror}") from error
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode

"""Where the keys of tokens come from: a JWKS over https at real sockets, and a file, exchanged under one's hands."""

from __future__ import annotations

import asyncio
import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replica.tokens import believed_keys
from replica.tokens.believed_keys import BelievedKeys
from replica.tokens.fetching import fetch
from replica.tokens.keys import KEYS_BYTES_MAX, BadKeys
from tandemq.config import ConfigError
from tandemq.config_tokens import Tokens, problem_of_tokens
from tandemq.credentials.authority import create, issue
from tests.support import tokens
from tests.support.until import until


class Issuer:
    """An https server that answers as a test wants it to."""

    def __init__(self, folder: Path) -> None:
        create(folder / "authority")
        issue(folder / "authority", "member/issuer/a", folder / "own")
        self.authority = str(folder / "authority" / "ca.pem")
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, b"")
        self.asked = 0
        own = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                own.asked += 1
                status, headers, body = own.answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
                """Nobody reads it."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "own" / "cert.pem", folder / "own" / "key.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.address = f"https://localhost:{self.server.server_port}/jwks.json"

    def has(self, *kids: str) -> None:
        """It publishes keys of these names."""
        entries = [tokens.jwk(kid, "ES256", tokens.key_of("ES256", int(kid))) for kid in kids]
        self.answer = (200, {}, tokens.jwks(*entries))

    def said(self, **changes: Any) -> Tokens:
        values = {"keys": self.address, "keys_authority": self.authority, **changes}
        return Tokens(issuer=tokens.ISSUER, audience=tokens.AUDIENCE, **values)


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    found = Issuer(tmp_path)
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


class Clock:
    """What the keys take for now."""

    def __init__(self) -> None:
        self.now_s = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(believed_keys, "monotonic_s", lambda: found.now_s)
    return found


def kids(keys: BelievedKeys) -> list[str]:
    return [each.kid for each in keys.keys]


async def test_an_address_is_asked_again_and_the_last_good_keys_stay_loudly(issuer: Issuer, clock: Clock) -> None:
    events: list[str] = []
    keys = BelievedKeys(issuer.said(), lambda _kind, text: events.append(text))
    assert keys.keys == ()
    issuer.has("1")
    keys.look(0)
    await until(lambda: kids(keys) == ["1"], "it has answered")
    keys.look(0)
    assert issuer.asked == 1, "it is not asked at each tick"
    for answer, why in (
        ((500, {}, b""), "answered 500"),
        ((302, {"location": "https://evil.example/"}, b""), "answered 302"),
        ((200, {}, b"<html>"), "neither PEM nor a JWKS"),
        ((200, {}, b'{"keys": []}'), "no public key"),
        ((200, {}, b" " * (KEYS_BYTES_MAX + 5)), "more than"),
    ):
        issuer.answer = answer
        clock.now_s += 400
        keys.look(0)
        await until(lambda why=why: why in keys.refused, why)  # type: ignore[misc]  # a default is bound at once
        assert kids(keys) == ["1"]
        assert "those that were in force stay" in events[-1]
    issuer.has("1", "2")
    clock.now_s += 11
    keys.look(0)
    await until(lambda: kids(keys) == ["1", "2"], "it is asked again soon after it failed")
    assert keys.refused == ""
    assert "can be used again" in events[-1]


async def test_a_key_that_nobody_has_heard_of_is_asked_for_once_in_a_while(issuer: Issuer, clock: Clock) -> None:
    keys = BelievedKeys(issuer.said(), lambda _kind, _text: None)
    issuer.has("1")
    assert await keys.newer()
    issuer.has("1", "2")
    assert not await keys.newer()
    assert not await keys.newer()
    assert issuer.asked == 1
    clock.now_s += 11
    answers = await asyncio.gather(*(keys.newer() for _ in range(20)))
    assert (all(answers), issuer.asked) == (True, 2)
    assert kids(keys) == ["1", "2"]


def test_whoever_answers_has_to_be_the_one_that_is_configured(issuer: Issuer, tmp_path: Path) -> None:
    issuer.has("1")
    assert fetch(issuer.address, issuer.authority) == issuer.answer[2]
    other = str(create(tmp_path / "other"))
    refused: tuple[tuple[str, str], ...] = (
        (issuer.address, other),
        (issuer.address, ""),
        (issuer.address.replace("localhost", "127.0.0.2"), issuer.authority),
        ("https://localhost:1/", issuer.authority),
        (issuer.address, str(tmp_path / "nowhere.pem")),
    )
    for address, authority in refused:
        with pytest.raises(BadKeys, match="cannot be fetched"):
            fetch(address, authority)


async def test_a_file_is_looked_at_each_second_and_what_is_broken_never_counts(tmp_path: Path, clock: Clock) -> None:
    path, events = tmp_path / "keys.pem", []
    said = Tokens(keys=str(path), issuer="i", audience="a")
    with pytest.raises(ConfigError, match=r"keys\.pem'.*cannot be read: No such file"):
        BelievedKeys(said, lambda _kind, _text: None)
    path.write_bytes(tokens.pem(tokens.key_of("ES256")))
    keys = BelievedKeys(said, lambda _kind, text: events.append(text))
    first, change = keys.keys, _changer(path)
    for data in (b"", b"-----BEGIN PUBLIC KEY-----\nhalf", tokens.jwks()):
        change(data)
        clock.now_s += 1.5
        keys.look(0)
        assert keys.keys == first
        assert events
        assert keys.refused
    path.unlink()
    clock.now_s += 1.5
    keys.look(0)
    assert keys.keys == first
    change(tokens.pem(tokens.key_of("ES256", 1)))
    clock.now_s += 1.5
    keys.look(0)
    assert keys.keys != first
    assert (keys.refused, keys.generation) == ("", 2)


def _changer(path: Path) -> Callable[[bytes], None]:
    def change(data: bytes) -> None:
        (new := path.with_suffix(".new")).write_bytes(data)
        new.replace(path)

    return change


def test_a_configuration_that_cannot_work_says_what_to_do() -> None:
    right = {"keys": "/k.pem", "issuer": "i", "audience": "a"}
    assert problem_of_tokens(Tokens(**right), "127.0.0.1:1", "/c") == ""
    assert problem_of_tokens(Tokens(), "", "") == ""
    for changes, said in (
        ({"keys": "http://issuer/jwks"}, "write https://host/path"),
        ({"keys": "ftp://issuer/jwks"}, "write https://host/path"),
        ({"keys": "https:///jwks"}, "write https://host/path"),
        ({"keys": "https://me:pw@issuer/jwks"}, "write https://host/path"),
        ({"keys": ""}, "tokens.keys is missing"),
        ({"issuer": ""}, "tokens.issuer is missing"),
        ({"audience": ""}, "tokens.audience is missing"),
        ({"keys_authority": "/ca.pem"}, "is for a tokens.keys that begins with https://"),
        ({"leeway_seconds": 301}, "from 0 to 300"),
        ({"refresh_seconds": 1}, "at least 10"),
    ):
        found = problem_of_tokens(Tokens(**{**right, **changes}), "127.0.0.1:1", "/c")  # type: ignore[arg-type]  # wrong ones
        assert said in found, (changes, found)
    assert "never sent over a plain connection" in problem_of_tokens(Tokens(**right), "127.0.0.1:1", "")
    assert "manager.listen_bearer is empty" in problem_of_tokens(Tokens(**right), "", "/c")

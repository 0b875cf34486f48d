"""How often the address of keys is asked, and for how long anybody waits for it, at a real socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from replica.tokens import believed_keys
from replica.tokens.believed_keys import AGAIN_S, BelievedKeys
from replica.tokens.fetching import fetch
from tandemq.config_tokens import Tokens


class Asked:
    """The clock of the keys, and how often an address was asked."""

    def __init__(self) -> None:
        self.now_s, self.count = 1_000.0, 0

    def fetch(self, address: str, authority: str) -> bytes:
        self.count += 1
        return fetch(address, authority)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    monkeypatch.setattr(believed_keys, "fetch", found.fetch)
    monkeypatch.setattr(believed_keys, "monotonic_s", lambda: found.now_s)
    return found


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def keys_at(port: int) -> BelievedKeys:
    return BelievedKeys(Tokens(keys=f"https://127.0.0.1:{port}/", issuer="i", audience="a"), lambda _kind, _text: None)


async def test_who_waits_for_keys_is_not_held_by_an_address_that_goes_on_and_on(
    silent: int, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(believed_keys, "TOTAL_S", 0.05)
    keys = keys_at(silent)
    assert not await keys.newer()
    assert keys.refused == "did not answer within 0.05 s"
    asked.now_s += 2 * AGAIN_S
    assert not await keys.newer()
    assert asked.count == 1, "one thread waits for it, and no more"


async def test_tokens_of_unknown_keys_have_an_address_that_fails_asked_no_oftener(asked: Asked) -> None:
    """Whoever sends tokens, and need not be believed, does not choose how often an issuer is asked."""
    keys = keys_at(1)
    for _ in range(5):
        assert not await keys.newer()
    assert (asked.count, "cannot be fetched" in keys.refused) == (1, True)
    asked.now_s += AGAIN_S
    assert not await keys.newer()
    assert asked.count == 2

"""What is said of a client that does not do what it is told: each of these is a shell script in place of one."""

from __future__ import annotations

import pytest

from tests.interop.clients import ClientFailed
from tests.interop.sessions import run_false_scripts

pytestmark = pytest.mark.process
NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("while read step; do echo ok; done", "this was not noticed: create queue=orders"),
        ("read step; echo ok 7", "false0.txt:1: create: found '7', not ''"),
        ("read step; echo no such queue >&2; exit 1", "false0.txt:1: create: no such queue"),
        ("read step; echo ok; read step; kill -9 $$", "false0.txt:2: send: exit code -9"),
        ("read step; exit 0", "false0.txt:1: create: exit code 0"),
        ("read step; exit 1", "false0.txt:1: create: it ended and said nothing"),
    ],
)
async def test_a_client_that_does_not_do_it_is_found_out(program: str, said: str) -> None:
    with pytest.raises(ClientFailed) as failed:
        await run_false_scripts(["sh", "-c", program], NOBODY)
    assert str(failed.value).startswith(said)


async def test_a_client_that_sees_what_is_wrong_passes() -> None:
    program = "read a; echo ok; read b; echo ok; read c; echo length 2 >&2; exit 1"
    assert await run_false_scripts(["sh", "-c", program], NOBODY) == 3

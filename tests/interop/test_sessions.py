"""What is said of a client that does not do what it is told: each of these is a shell script in place of one."""

from __future__ import annotations

import pytest

from tests.interop.clients import ClientFailed
from tests.interop.judge import Wrong
from tests.interop.sessions import FALSE_SCRIPTS, run_false_scripts, running

pytestmark = pytest.mark.process
NOBODY = "127.0.0.1:1"
# It says what is wanted, as if it knew.
SEEMS_RIGHT = """
while read verb queue rest; do
  case $verb in send) echo sent 1; echo sent 2 ;; length) echo length 3 ;; esac
  echo ok
done"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        # What these say ends the first script at another line than its last, or not at all.
        (
            "while read step; do echo sent 1; echo sent 2; echo ok; done",
            "false0.txt:1: create: found 'sent 1', not nothing",
        ),
        ("while read step; do echo ok; done", "false0.txt:2: send: found nothing, not 'sent 1'"),
        (SEEMS_RIGHT, "this was not noticed: create queue=orders"),
        ("read step; echo no such queue >&2; exit 1", "false0.txt:1: create: exit code 1\nno such queue"),
        ("read step; echo ok; read step; kill -9 $$", "false0.txt:2: send: exit code -9"),
        ("read step; exit 0", "false0.txt:1: create: exit code 0"),
    ],
)
async def test_a_client_that_does_not_do_it_is_found_out(program: str, said: str) -> None:
    with pytest.raises((ClientFailed, Wrong)) as failed:
        await run_false_scripts(["sh", "-c", program], NOBODY)
    assert str(failed.value).startswith(said)


async def test_a_client_that_says_what_it_sees_passes() -> None:
    program = """
    while read verb queue rest; do
      case $verb in
        send) seq -f 'sent %g' ${rest#* } ;;
        length) echo length 2 ;;
        browse) echo message 1 1; echo message 2 2 ;;
        answers) echo 'answer ' ;;
      esac
      echo noise of its language
      echo ok
    done"""
    assert await run_false_scripts(["sh", "-c", program], NOBODY) == len(FALSE_SCRIPTS)


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("exit 3", "exit code 3 after the last step"),
        ("echo ok", "exit code 0 after the last step"),
        ("echo message 1 1", "exit code 0 after the last step\nmessage 1 1"),
        ("echo gone; exit 1", "exit code 1 after the last step\ngone"),
    ],
)
async def test_a_client_that_does_not_end_well_is_found_out(ending: str, said: str) -> None:
    async with running(["sh", "-c", f"read step; echo ok; read step; {ending}"], NOBODY) as client:
        client.tell("length q")
        assert await client.answer() == []
        with pytest.raises(ClientFailed) as failed:
            await client.end()
    assert str(failed.value) == said

"""The generated blocking client is what the asyncio client says; what cannot be carried is refused."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import indent

import pytest

from tools import gen_blocking
from tools.gen_blocking import BY_HAND, SOURCE, NotCarriedError, generate, read

ROOT = Path(gen_blocking.__file__).parent.parent


def call_of(text: str, name: str) -> str:
    (calls,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    (found,) = (node for node in calls.body if isinstance(node, ast.FunctionDef) and node.name == name)
    return ast.unparse(found)


def planted(method: str) -> str:
    """The text that is generated when the asyncio client has one call more."""
    return generate(f"{read(SOURCE)}\n\n{indent(method, '    ')}\n", read(BY_HAND))


def test_what_is_committed_is_what_the_asyncio_client_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert gen_blocking.main(["check"]) == 0, capsys.readouterr().err


def test_a_difference_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(gen_blocking.LEFT_OUT, "pair_status", set())
    assert gen_blocking.main(["check"]) == 1
    assert "blocking_generated.py is not what the asyncio client says: run `make blocking`" in capsys.readouterr().err


def test_no_other_file_is_called_generated() -> None:
    folders = ("tandemq", "replica", "storage", "failover", "chaos", "pipeline", "bench", "tools", "tests")
    assert [path for folder in folders for path in (ROOT / folder).rglob("*_generated.py")] == [gen_blocking.TARGET]


def test_a_call_more_is_carried_over() -> None:
    says = '    """Says it.\n\n    All of it.\n    """\n'
    expected = {
        "async def a(self, queue: str, *, wait: int = 0) -> int:": "return self._thread.run({}(queue, wait=wait))",
        "async def b(self) -> None:": "self._thread.run({}())",
        "def c(self, **more: Outgoing) -> int:": "return {}(**more)",
        "@property\ndef d(self) -> str:": "return {}",
        "async def e(self) -> AsyncIterator[int]:": "return self._thread.each({}())",
        "async def f(self) -> Handle:": "return Handle(self._thread, self._thread.run({}()))",
    }
    text = planted("\n".join(f"{head}\n{says}    ..." for head in expected))
    for name, (head, body) in zip("abcdef", expected.items(), strict=True):
        blocking = head.replace("async ", "").replace("AsyncIterator", "Iterator")
        call = f"{blocking}\n{says}    {body.format(f'self._inner.{name}')}"
        assert call_of(text, name) == call_of(f"class Calls:\n{indent(call, '    ')}", name)


def test_a_call_that_is_a_function_of_another_module_is_carried_over() -> None:
    line = "    purge_queue = admin.purge_queue\n"
    assert read(SOURCE).count(line) == 1
    assert "def purge_queue(" not in generate(read(SOURCE).replace(line, ""), read(BY_HAND))
    expected = ast.unparse(
        ast.parse(
            "def purge_queue(self, name: str, *, domain: str='') -> int:\n"
            "    '''Removes every message that is not leased; how many. `domain`: as of update_queue.'''\n"
            "    return self._thread.run(self._inner.purge_queue(name, domain=domain))"
        )
    )
    assert call_of(generate(read(SOURCE), read(BY_HAND)), "purge_queue") == expected


def test_a_call_that_is_written_by_hand_is_left_to_it() -> None:
    by_hand = read(BY_HAND).replace("def dequeue_ahead(", "def purge_queue(")
    found = call_of(generate(read(SOURCE), by_hand), "purge_queue")
    assert "self._bridge.purge_queue(queue, max_messages, wait=wait, lease=lease, mode=mode)" in found
    assert "_inner" not in found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("empty = admin.purge_queue", "empty: it is called purge_queue where it is written"),
        ("MemberAnswer = admin.MemberAnswer", "MemberAnswer: tandemq.client.admin has no such function"),
    ],
)
def test_what_is_no_function_of_its_name_is_refused(line: str, said: str) -> None:
    with pytest.raises(NotCarriedError, match=said):
        planted(line)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("async def more(self, handle: Handle) -> None:", "more: an argument has another form"),
        ("async def more(self) -> None:\n    pass", "more: it has no docstring"),
        ("async def more(self) -> message_pb2.Message:", "more: its module imports no message_pb2"),
    ],
)
def test_what_cannot_be_carried_is_refused(head: str, said: str) -> None:
    with pytest.raises(NotCarriedError, match=said):
        planted(f'{head}\n    """Says it."""')


def test_a_name_that_is_two_things_is_refused() -> None:
    waits = "from tandemq.client.waits import Wait"
    with pytest.raises(NotCarriedError, match="Wait is another thing elsewhere"):
        generate(read(SOURCE).replace(waits, "from tandemq.client.elsewhere import Wait"), read(BY_HAND))


def test_a_difference_that_is_declared_of_no_call_is_refused() -> None:
    by_hand = read(BY_HAND).replace("def dequeue_ahead(", "def browse(")
    with pytest.raises(NotCarriedError, match="a table names what is no call, or is written by hand: browse"):
        generate(read(SOURCE), by_hand)


def test_a_summary_that_is_the_docstring_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    docstring = "Removes every message that is not leased; how many. `domain`: as of update_queue."
    monkeypatch.setitem(gen_blocking.SUMMARIES, "purge_queue", docstring)
    with pytest.raises(NotCarriedError, match="purge_queue: it has no docstring, or its summary is that"):
        generate(read(SOURCE), read(BY_HAND))

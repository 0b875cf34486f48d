"""The process that keeps a pair for another one: takes lines of JSON on stdin, answers each with one on stdout.

It ends, and everything with it, when stdin closes, when whoever started it is gone, or on SIGTERM: also in the middle
of a deed. What a verb does is in `chaos.kept`.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import traceback
from typing import IO, Any

import msgspec

from chaos.kept import Kept
from tandemq.errors import TandemqError

LINE_BYTES_MAX = 1 << 20
ORPHAN_S = 0.5  # between two looks at who our parent is
VERBS = (
    *("start", "stop", "died", "status", "kill", "freeze", "thaw", "run", "handoff", "whole", "register", "principal"),
    *("strike", "hold", "release", "heal", "clear", "load", "goes_on", "judge", "history"),
)


class Question(msgspec.Struct, frozen=True):
    """One line of the input."""

    id: int
    verb: str
    arguments: dict[str, Any] = {}


class Answer(msgspec.Struct, frozen=True):
    """One line of the output; `error` is empty when the deed is done."""

    id: int
    value: Any = None
    error: str = ""


def main() -> None:
    """Until nobody wants the pair any more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what somebody prints is no answer
    asyncio.run(_keep(answers))


async def _keep(answers: IO[bytes]) -> None:
    loop, parent = asyncio.get_running_loop(), os.getppid()
    stop_asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_asked.set)
    questions = asyncio.StreamReader(LINE_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin.buffer)
    kept = Kept()
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    tasks = [
        asyncio.create_task(stop_asked.wait()),
        asyncio.create_task(_read(questions, lines)),
        asyncio.create_task(_orphaned(parent)),
        asyncio.create_task(_serve(kept, lines, answers)),
    ]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await kept.close()


async def _read(questions: asyncio.StreamReader, lines: asyncio.Queue[bytes]) -> None:
    """Returns at the end of the input, also while a deed is done."""
    while line := await questions.readline():
        lines.put_nowait(line)


async def _orphaned(parent: int) -> None:
    """Returns when whoever started us is gone. A child that it forked may hold our input open."""
    while os.getppid() == parent:  # noqa: ASYNC110 - no event comes
        await asyncio.sleep(ORPHAN_S)


async def _serve(kept: Kept, lines: asyncio.Queue[bytes], answers: IO[bytes]) -> None:
    while True:
        question = msgspec.json.decode(await lines.get(), type=Question)
        try:
            answer = Answer(question.id, await _do(kept, question))
        except (RuntimeError, ValueError, TimeoutError, OSError, TandemqError, ExceptionGroup) as error:
            traceback.print_exception(error)
            answer = Answer(question.id, error=text_of(error))
        answers.write(msgspec.json.encode(answer) + b"\n")


async def _do(kept: Kept, question: Question) -> Any:
    if question.verb not in VERBS:
        raise ValueError(f"no verb is called {question.verb!r}; there are {', '.join(VERBS)}")
    verb = getattr(kept, question.verb)
    arguments = question.arguments
    parameters = list(inspect.signature(verb, eval_str=True).parameters.values())
    if len(parameters) == 1 and inspect.isclass(kind := parameters[0].annotation) and issubclass(kind, msgspec.Struct):
        return await verb(msgspec.convert(arguments, kind))
    return await verb(**arguments)


def text_of(error: BaseException) -> str:
    """What went wrong, each thing once, out of nested groups."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(text_of(inner) for inner in error.exceptions))
    if isinstance(error, TandemqError):
        return f"{error.reason}: {error.message}"
    return str(error) or type(error).__name__

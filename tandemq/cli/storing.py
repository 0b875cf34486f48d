"""How a command that reads or writes a member's files shows its progress, and how it ends when they are wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from tandemq.cli.failure import FAILED, Failure

STEPS = MappingProxyType(
    {
        "INVALID_STATE": "name the other member with --member, or take it as it is with --any-copy",
        "SYNCING": "wait for the transfer (`tandemq pair watch`), or name the other member with --member",
        "QUOTA_EXCEEDED": "see the cause, then repeat it",
        "DIRECTORY_IN_USE": "stop the member first; of a running one take a backup: tandemq backup create FILE",
    }
)


def server() -> None:
    from tandemq.embedded import server_path

    server_path()


@contextmanager
def storage_failures() -> Iterator[None]:
    """What is wrong with a file or a directory ends the command."""
    server()
    from storage.errors import StorageError

    try:
        yield
    except StorageError as error:
        raise failure_of_storage(error) from error
    except OSError as error:
        where = error.filename or ""
        text = f"{where}: {error.strerror}" if where else str(error)
        raise Failure("IO_ERROR", text, "look at the file, the directory and the room there", FAILED) from error


def failure_of_storage(error: Any) -> Failure:
    """How a command ends that met this StorageError."""
    server()
    from storage import errors

    reasons = {
        errors.NewerFormat: "NEWER_FORMAT",
        errors.DirectoryInUse: "DIRECTORY_IN_USE",
        errors.WrongPair: "WRONG_PAIR",
        errors.StoreFull: "STORAGE_FULL",
        errors.DirectoryNotEmpty: "DIRECTORY_NOT_EMPTY",
        errors.RestoreUnfinished: "RESTORE_UNFINISHED",
    }
    reason = reasons.get(type(error), "CORRUPT_STORE")
    place = f" ({error.where})" if error.where else ""
    return Failure(reason, f"{error.what}{place}", STEPS.get(reason) or error.remedy, FAILED)


class Progress:
    """A progress bar on a terminal's stderr; one step after the other."""

    def __init__(self, *, visible: bool) -> None:
        self._progress: Any = None
        self._task: Any = None
        self._step = ""
        if visible:
            from rich.progress import Progress as Bar

            from tandemq.cli.output import console

            self._progress = Bar(console=console(stderr=True), transient=True)
            self._progress.start()

    def __call__(self, step: str, done: int, size: int) -> None:
        if self._progress is None:
            return
        if step != self._step:
            self._step, self._task = step, self._progress.add_task(step, total=None)
        self._progress.update(self._task, completed=done, total=size or None)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def bar_for(output: str) -> Iterator[Progress]:
    bar = Progress(visible=output == "table" and sys.stderr.isatty())
    try:
        yield bar
    finally:
        bar.close()

"""A program: copies a lake again and again, and dies in each copy one step later, by SIGKILL, while it does one thing.

    python -m tests.unit.pipeline.striking_lake publish LAKE INTO

A step is a call that changes what is on the disk. Each death is that of a child, forked before there is any thread.
Prints how many steps there were; the last copy is one in which nobody died.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.adopting import adopt, settle
from pipeline.integrity import prove
from pipeline.lake import Lake, Place

STEPS = ("mkdir", "rename", "unlink", "rmdir", "fsync")
STEPS_MAX = 200


def publish(lake: Lake) -> None:
    with lake.locked():
        end = lake.end("a")
        assert end is not None
        lake.publish("a", end.log_index, Place(end.log_index + 10, 3), _staged(lake), rows=100)


def first(lake: Lake) -> None:
    """Of a member of which there is nothing yet."""
    with lake.locked():
        lake.publish("c", 1, Place(10, 3), _staged(lake), rows=100)


def replace(lake: Lake) -> None:
    with lake.locked():
        lake.replace("a", lake.stretches("a"), _staged(lake), rows=300)


def again(lake: Lake) -> None:
    """What an ingest does before it goes on."""
    with lake.locked():
        prove(lake)
        settle(lake, lambda _: None)


def take_over(lake: Lake) -> None:
    with lake.locked():
        adopt(lake)


DEEDS: dict[str, Callable[[Lake], None]] = {deed.__name__: deed for deed in (publish, first, replace, again, take_over)}


def _staged(lake: Lake) -> Path:
    path = lake.staging("rows")
    path.mkdir()
    (path / "part-0.parquet").write_text("rows")
    return path


def die_at(step: int) -> None:
    """From now on: before the one of that number."""
    left = step

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    io_open = counted(open)
    Path.open = lambda self, mode="r", *arguments, **named: (  # type: ignore[assignment,method-assign]  # for the child
        (io_open if set(mode) & set("wax+") else open)(self, mode, *arguments, **named)
    )


def main(deed: str, lake: Path, into: Path) -> int:
    for step in range(1, STEPS_MAX):
        copy = into / f"{step:03}"
        shutil.copytree(lake, copy)
        child = os.fork()
        if child == 0:
            die_at(step)
            DEEDS[deed](Lake(copy))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            return step - 1
    raise AssertionError(f"more than {STEPS_MAX} steps")


def run() -> None:
    """As the command line says."""
    sys.stdout.write(f"{main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))}\n")


if __name__ == "__main__":
    run()

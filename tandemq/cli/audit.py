"""Shows the audit logs of members: who was refused, and who gave orders. Reads their files; asks no member."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime
from os import fstat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from tandemq.auditing import FILE, OLDER, AuditLine, decoded
from tandemq.cli.output import print_line, print_rows, say
from tandemq.cli.params import MOMENT, output_option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COLUMNS = ("time", "member", "principal", "address", "method", "object", "outcome", "left_out", "request")
LOOK_S = 0.2
"""Between two looks at the files."""

directories = click.argument("data_dirs", type=click.Path(path_type=Path), nargs=-1)
principal_option = click.option("--principal", default="", help="Only of this one: billing, or member/west/a.")
method_option = click.option("--method", default="", help="Only calls that begin so: QueueAdminService/.")
outcome_option = click.option("--outcome", default="", help="Only with this outcome: OK, PERMISSION_DENIED.")
object_option = click.option("--object", "about", default="", help="Only about this queue, or `pair`.")


@click.group()
def audit() -> None:
    """The audit log: calls that were refused for want of a right, and all orders, with who made them.

    DATA_DIRS are the data directories of members, those of both of a pair perhaps: each member writes down the calls
    that came to it. Without any: those of the pair that `tandemq dev` runs. Members have a log where they have
    certificates ([security] credentials).

    \b
    Example: tandemq audit ls /var/lib/tandemq --principal billing
             tandemq audit tail /var/lib/tandemq -o jsonl
    """


@audit.command()
@directories
@principal_option
@method_option
@outcome_option
@object_option
@click.option("--since", type=MOMENT, default=None, help="Only from this moment on: 2026-03-01T12:00:00Z.")
@click.option("--limit", type=click.IntRange(1), default=1_000, show_default=True, help="Newest lines to show.")
@output_option()
def ls(
    data_dirs: tuple[Path, ...],
    principal: str,
    method: str,
    outcome: str,
    about: str,
    since: datetime | None,
    limit: int,
    output: str,
) -> None:
    """List what is in the audit logs, oldest first.

    \b
    Example: tandemq audit ls /var/lib/tandemq --outcome PERMISSION_DENIED -o jsonl
    """
    wanted = _filter(principal, method, outcome, about)
    found, bad = _read(data_dirs or _of_context())
    rows = [_row(each) for each in found if wanted(each) and (since is None or _moment(each) >= since)]
    print_rows(rows[-limit:], "lines", output, COLUMNS)
    _say_bad(bad)


@audit.command()
@directories
@principal_option
@method_option
@outcome_option
@object_option
@output_option("jsonl", "table", "json")
def tail(data_dirs: tuple[Path, ...], principal: str, method: str, outcome: str, about: str, output: str) -> None:
    """Show what is added from now on, until it is broken off: a line each, as JSON unless -o table is given.

    \b
    Example: tandemq audit tail /var/lib/tandemq --principal billing
    """
    wanted = _filter(principal, method, outcome, about)
    ends = [_End(each / FILE) for each in data_dirs or _of_context()]
    while True:
        for line in (each for end in ends for each in end.added()):
            if wanted(line):
                _show(line, output)
        time.sleep(LOOK_S)


def _of_context() -> list[Path]:
    """The data directories of the pair of the current context, where it is one of this machine."""
    from tandemq.cli import context

    with suppress(OSError, ValueError):
        found = context.read(context.current_path())
        if data_dir := found.get("data_dir"):
            folders = [Path(data_dir) / name for name in sorted(found.get("pids", {}))]
            return [folder for folder in folders if (folder / FILE).exists()]
    raise click.UsageError("name data directories of members: no `tandemq dev` of this user runs a pair")


class _End:
    """Where one has read a file to, also of one that is put aside for another of its name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._opened()
        self._torn = b""
        if self._file is not None:
            self._file.seek(0, 2)

    def _opened(self) -> BinaryIO | None:
        with suppress(FileNotFoundError):
            return self._path.open("rb")
        return None

    def added(self) -> list[AuditLine]:
        """Since the last look."""
        data = self._read()
        if self._is_another():
            if self._file is not None:
                self._file.close()
            self._file = self._opened()
            data += self._read()
        *lines, self._torn = (self._torn + data).split(b"\n")
        return decoded(lines)[0]

    def _read(self) -> bytes:
        return self._file.read() if self._file is not None else b""

    def _is_another(self) -> bool:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        return self._file is None or found.st_ino != fstat(self._file.fileno()).st_ino


def _show(line: AuditLine, output: str) -> None:
    row = _row(line)
    if output == "table":
        say("  ".join(str(row[name]) for name in COLUMNS if row[name]))
    else:
        print_line(row)


def _read(data_dirs: Sequence[Path]) -> tuple[list[AuditLine], int]:
    from tandemq.cli.storing import storage_failures

    found: list[AuditLine] = []
    bad = 0
    with storage_failures():
        for each in data_dirs:
            for name in (OLDER, FILE):
                lines, unread = decoded((each / name).read_bytes().split(b"\n")) if (each / name).exists() else ([], 0)
                found += lines
                bad += unread
    found.sort(key=lambda each: each.time)
    return found, bad


def _filter(principal: str, method: str, outcome: str, about: str) -> Callable[[AuditLine], bool]:
    who = principal if not principal or "/" in principal else f"principal/{principal}"

    def wanted(line: AuditLine) -> bool:
        return (
            line.principal == (who or line.principal)
            and line.method.startswith(method)
            and line.outcome == (outcome or line.outcome)
            and about in ("", line.object, *line.object.split(", "))
        )

    return wanted


def _row(line: AuditLine) -> dict[str, Any]:
    return {name: getattr(line, name) for name in COLUMNS}


def _moment(line: AuditLine) -> datetime:
    return datetime.fromisoformat(line.time)


def _say_bad(bad: int) -> None:
    if bad:
        say(f"{bad} lines cannot be read and are left out", err=True)

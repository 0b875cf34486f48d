"""Takes, checks and restores backups; decides which member is asked and how files come and go, never what they hold."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.compacting import compact
from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.opening import opener
from tandemq.cli.pair_call import choose, look_at, member_option
from tandemq.cli.params import DURATION, output_option, target_option
from tandemq.cli.storing import STEPS, Progress, bar_for, server, storage_failures

if TYPE_CHECKING:
    from replica.offline.examine import ExaminedDomain
    from storage.backup import BackupHead
    from tandemq.cli.view import MemberView

PARTIAL = ".partial"


@click.group()
def backup() -> None:
    """Take, check and restore backups of a member."""


@backup.command()
@click.argument("file", type=click.Path(path_type=Path))
@target_option
@member_option
@click.option("--any-copy", is_flag=True, help="Also of a copy that may lack what was acknowledged since.")
@click.option(
    "--timeout", "timeout_ms", type=DURATION, default="30s", show_default=True, help="Give up when nothing comes."
)
@output_option("table", "json")
def create(file: Path, target: str | None, member: str | None, any_copy: bool, timeout_ms: int, output: str) -> None:
    """Copy a running member's store into FILE, and verify it; of a pair the replica's, unless --member names one.

    Until it is whole it is FILE.partial; a file that is there already is never overwritten.

    Example: tandemq backup create orders.tqb --target 127.0.0.1:7600
    """
    if file.exists():
        raise Failure("FILE_EXISTS", f"{file} exists already", "name another file; none is overwritten", FAILED)
    asked = choose(look_at(target, timeout_ms), target, member, prefer=_follows)
    partial = file.with_name(file.name + PARTIAL)
    with storage_failures(), bar_for(output) as bar:
        _receive(asked, partial, any_copy=any_copy, timeout_ms=timeout_ms, bar=bar)
        facts = _facts_of_file(partial, bar)
        partial.rename(file)
        _sync(file.parent)
    _show({"file": str(file), **facts}, output)


@backup.command()
@click.argument("path", type=click.Path(path_type=Path))
@output_option("table", "json")
def verify(path: Path, output: str) -> None:
    """Read a backup, or the data directory of a stopped member, to its last byte, and say what is in it. Exit code 1
    when something is wrong with it.

    Example: tandemq backup verify orders.tqb -o json
    """
    with storage_failures(), bar_for(output) as bar:
        facts = _facts_of_directory(path, bar) if path.is_dir() else _facts_of_file(path, bar)
    _show({"path": str(path), **facts}, output)


@backup.command()
@click.argument("source", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--data-dir", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Empty, or to be made.")
@click.option("--member", metavar="NAME", help="Whose directory it will be. Default: the one whose backup it is.")
@output_option("table", "json")
def restore(source: Path, data_dir: Path, member: str | None, output: str) -> None:
    """Make a data directory from a backup, or from the directory of a member that does not run. A member of a pair that
    starts from it is STALE until its peer has transferred what is missing; where no current copy is left, see
    docs/OPERATIONS.md, Backup and restore.

    Example: tandemq backup restore orders.tqb --data-dir /var/lib/tandemq
    """
    with storage_failures(), bar_for(output) as bar:
        facts = restore_into(data_dir, source, pair=None, member=member, on_progress=bar)
    _show(facts, output)


def restore_into(
    directory: Path, source: Path, *, pair: str | None, member: str | None, on_progress: Callable[[str, int, int], None]
) -> dict[str, Any]:
    """Fill an empty data directory from a backup. Raises StorageError and OSError."""
    server()
    from replica.offline import restoring

    done = restoring.restore(source, directory, pair=pair, member=member, on_progress=on_progress)
    head = done.head
    copy = "the peer brings it up to date when it is current, else an operator decides" if head.pair else "complete"
    taken = _time(head.time_ms) if head.time_ms else ""
    facts = {"data_dir": str(directory), "pair": head.pair, "member": done.member, "taken_at": taken}
    return {**facts, "records": done.records, "left_out": list(done.left_out), "copy": copy}


def fill(directory: Path, source: Path, *, pair: str, member: str) -> dict[str, Any]:
    """The same before a manager starts: what is wrong ends the command."""
    with storage_failures():
        return restore_into(directory, source, pair=pair, member=member, on_progress=lambda _what, _done, _all: None)


# -- files -------------------------------------------------------------------------------------------------------------


def _receive(asked: MemberView, partial: Path, *, any_copy: bool, timeout_ms: int, bar: Progress) -> None:
    from tandemq.cli.session import failure_of
    from tandemq.client.backup import take_backup
    from tandemq.errors import TandemqError

    try:
        with open(partial, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as into:
            taking = take_backup(
                asked.endpoint,
                into.write,
                any_copy=any_copy,
                silence_s=timeout_ms / 1000,
                on_progress=lambda done, size: bar("received", done, size),
                opener=opener(),
            )
            asyncio.run(taking)
            into.flush()
            os.fsync(into.fileno())
    except TandemqError as error:
        partial.unlink(missing_ok=True)
        failure = failure_of(error, asked.endpoint)
        failure.next_step = STEPS.get(error.reason) or failure.next_step
        raise failure from error


def _sync(directory: Path) -> None:
    server()
    from storage.directory import sync_directory

    sync_directory(directory)


def _facts_of_file(path: Path, bar: Progress) -> dict[str, Any]:
    server()
    from contextlib import closing

    from replica.offline.examine import examine
    from storage.backup import open_backup

    with closing(open_backup(path, lambda done, size: bar("read", done, size))) as opened:
        head = opened.head
        domains = examine(opened, head, lambda done: bar("examined", done, head.records))
        return {**_facts_of_head(head), "bytes": opened.bytes, **_facts_of(domains)}


def _facts_of_head(head: BackupHead) -> dict[str, Any]:
    return {
        "kind": "backup",
        "pair": head.pair,
        "member": head.member,
        "peer": head.peer,
        "taken_at": _time(head.time_ms),
        "whole": head.whole,
        "version": head.product,
        "instance_id": head.instance.hex(),
    }


def _facts_of_directory(path: Path, bar: Progress) -> dict[str, Any]:
    server()
    from contextlib import closing

    from replica.offline.examine import examine
    from storage.disk import open_to_read
    from storage.store import META_INSTANCE, META_MEMBER, META_PAIR

    with closing(open_to_read(path)) as store:
        pair, member = ((store.get_meta(key) or b"").decode() for key in (META_PAIR, META_MEMBER))
        instance = (store.get_meta(META_INSTANCE) or b"").hex()
        size = store.usage().used_bytes
        domains = examine(store, None, lambda done: bar("examined", done, done))
    facts = {"kind": "data directory", "pair": pair, "member": member, "instance_id": instance, "bytes": size}
    return {**facts, **_facts_of(domains)}


def _facts_of(domains: list[ExaminedDomain]) -> dict[str, Any]:
    rows = [
        {
            "name": each.name,
            "epoch": each.epoch,
            "log_index": each.log_index,
            "digest": each.digest.hex(),
            "data": each.data,
            "records": each.records,
            "messages": each.messages,
            "queues": [queue._asdict() for queue in each.queues],
        }
        for each in domains
    ]
    return {"records": sum(each.records for each in domains), "domains": rows}


def _show(facts: dict[str, Any], output: str) -> None:
    from tandemq.cli.output import print_facts, print_json, print_rows

    if output == "json":
        print_json(facts)
        return
    domains = facts.pop("domains", None)
    print_facts(facts, output)
    if domains is not None:
        print_rows(domains, "domains", output, ("name", "data", "epoch", "log_index", "records", "messages", "digest"))
        queues = [{"domain": each["name"], **queue} for each in domains for queue in each["queues"]]
        print_rows(queues, "queues", output, ("domain", "name", "messages", "bytes", "last_index"))


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _follows(member: MemberView) -> bool:
    """A replica has the time; it must hold everything."""
    main = member.domain("main")
    return main is not None and main.role == "REPLICA" and main.data_state == "IN_SYNC"


backup.add_command(compact)

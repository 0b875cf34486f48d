"""The command `tandemq doctor`: which checks are done, how they are printed, and how it ends; it judges nothing."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import Failure
from tandemq.cli.opening import keep_found
from tandemq.cli.output import console, print_json, print_line
from tandemq.cli.params import DURATION, SIZE, credentials_option, output_option

if TYPE_CHECKING:
    from tandemq.cli.doctor.asking import Asked
    from tandemq.cli.doctor.finding import Finding
    from tandemq.cli.doctor.places import Places

WELL, ILL, NOT_WRITTEN = 0, 1, 5
LIMIT = "20MiB"
STYLES = MappingProxyType({"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"})


@click.command()
@credentials_option
@click.option("--config", "files", multiple=True, metavar="FILE", help="Of a member of this machine; repeatable.")
@click.option(
    "--target", metavar="HOST:PORT[,...]", help="Members to ask. Default: those that the configuration names."
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="For the bundle; repeatable. Default: those of `tandemq dev`.",
)
@click.option("--bundle", metavar="FILE", type=click.Path(path_type=Path), help="Also write an archive (tar.gz).")
@click.option("--max-size", "limit_bytes", type=SIZE, default=LIMIT, show_default=True, help="Of what is in it.")
@click.option("--classifier/--no-classifier", "classify", default=True, help="Ask the classifier, with a PREFLIGHT.")
@click.option("--timeout", "timeout_ms", type=DURATION, default="2s", show_default=True, help="For each question.")
@output_option()
@click.pass_context
def doctor(
    ctx: click.Context,
    files: tuple[str, ...],
    target: str | None,
    logs: tuple[Path, ...],
    bundle: Path | None,
    limit_bytes: int,
    classify: bool,
    timeout_ms: int,
    output: str,
) -> None:
    """Look over this machine and a pair, and say what is wrong and what to do; works when nothing runs.

    It changes nothing. Real fsyncs are measured in the data directory, in a file without a name. A store that nobody
    has is opened for reading, for a moment under its lock. A classifier of your own is really run, with a PREFLIGHT.

    A bundle has all answers, configuration, event logs, journals, tails of logs, metrics and environment; never
    messages. Passwords and tokens are taken out where they differ from other words; look before you send it.

    Exit codes: 0 nothing fails (there may be warnings), 1 something fails, 2 usage, 5 the bundle was not written.

    \b
    Example: tandemq doctor
             tandemq doctor --config /etc/tandemq/a.toml -o json
             tandemq doctor --bundle case.tar.gz --log /var/log/tandemq/a.log
    """
    from tandemq.cli.doctor.bundle import LIMIT_BYTES_MIN, BundleError, check_place
    from tandemq.cli.doctor.finding import Level
    from tandemq.cli.doctor.places import find

    if limit_bytes < LIMIT_BYTES_MIN:
        raise click.BadParameter(f"give it at least {LIMIT_BYTES_MIN >> 10}KiB", param_hint="--max-size")
    if logs and bundle is None:
        raise click.UsageError("--log is for a bundle; add --bundle FILE")
    logging.getLogger("tandemq").addHandler(logging.NullHandler())  # the table says it
    try:
        if bundle is not None:
            check_place(bundle)
        places = find(files, target, logs)
        if target is not None and places.problem:
            raise click.BadParameter(places.problem, param_hint="--target")
        keep_found(places.credentials)
        asked, findings = asyncio.run(look_over(places, timeout_ms / 1000, classify=classify))
        written = (
            _write(bundle, limit_bytes, places, asked, findings, timeout_ms / 1000) if bundle is not None else None
        )
    except BundleError as error:
        raise Failure("NOT_WRITTEN", str(error), "the checks were not affected", NOT_WRITTEN) from error
    _show(findings, written, output)
    ctx.exit(ILL if any(each.level is Level.FAIL for each in findings) else WELL)


async def look_over(places: Places, timeout_s: float, *, classify: bool) -> tuple[Asked, list[Finding]]:
    """What the members say, and what every check found."""
    from tandemq.cli.doctor import asking, classifying, judging, local, machine

    configs = [each.config for each in places.locals if each.config is not None]
    addresses = [config.peer_address for config in configs if config.pair]
    addresses += [each for config in configs for each in config.etcd.endpoints]
    asked = await asking.ask(places.endpoints, places.witnesses, tuple(dict.fromkeys(addresses)), max(timeout_s, 0.1))
    answered = {member.endpoint: member for member in asked.view.members if member.reachable}
    findings = [machine.python_version(), machine.packages()]
    findings.append(machine.open_files(machine.own_open_files(), machine.HERE))
    if not places.locals:
        step = "name one with --config FILE, if a member should run on this machine"
        findings.append(local.CONFIG.skipped(machine.HERE, "no configuration of a member is found here", step))
    for each in places.locals:
        findings += await asyncio.to_thread(local.check, each, answered)
        if each.config is not None and each.config.pair and classify:
            findings.append(await classifying.check(each.config, each.about))
    findings += judging.judge(asked, configs, places.problem)
    return asked, findings


def _write(
    path: Path, limit_bytes: int, places: Places, asked: Asked, findings: Sequence[Finding], timeout_s: float
) -> dict[str, Any]:
    import platform
    from datetime import UTC, datetime

    from tandemq.cli.doctor import bundle
    from tandemq.cli.doctor.finding import counts
    from tandemq.cli.doctor.gathering import gather
    from tandemq.cli.doctor.redaction import Redactor
    from tandemq.cli.version import versions

    redactor = Redactor()
    parts = asyncio.run(gather(places, asked, findings, redactor, timeout_s))
    packed = bundle.pack(parts, limit_bytes)
    cut = [each.name for each in packed if each.outcome in (bundle.Outcome.TAIL, bundle.Outcome.LEFT_OUT)]
    missing = [each.name for each in packed if each.outcome is bundle.Outcome.MISSING]
    facts = {
        "schema_version": 1,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "version": versions(("tandemq",))["tandemq"],
        "command": redactor.arguments(sys.argv),
        "limit_bytes": limit_bytes,
        "outcome": "cut" if cut else "complete",
        "redacted": redactor.count,
        "findings": counts(findings),
    }
    size = bundle.write(path, packed, facts)
    return {"path": str(path), "bytes": size, "outcome": facts["outcome"], "cut": cut, "missing": missing}


def _show(findings: Sequence[Finding], written: dict[str, Any] | None, output: str) -> None:
    import msgspec

    from tandemq.cli.doctor.finding import counts

    rows = msgspec.to_builtins(list(findings))
    if output == "json":
        print_json({"counts": counts(findings), "findings": rows, "bundle": written})
    elif output == "jsonl":
        for row in rows:
            print_line(row)
        if written is not None:
            print_line({"bundle": written})
    else:
        _print(findings, written)


def _print(findings: Sequence[Finding], written: dict[str, Any] | None) -> None:
    from tandemq.cli.doctor.finding import Level, counts
    from tandemq.cli.terminal import styled

    out = console()
    width = max(len(each.check) for each in findings)
    for each in findings:
        mark = (f"{each.level.value:<7}", STYLES[each.level])
        out.print(styled(mark, f" {each.check:<{width}}  {each.about}: {each.what}"), soft_wrap=True)
        if each.level is not Level.OK:
            out.print(f"{'':<{width + 10}}why: {each.why}", style="dim", soft_wrap=True)
            if each.do:
                out.print(f"{'':<{width + 10}}do:  {each.do}", soft_wrap=True)
    out.print(", ".join(f"{count} {level}" for level, count in counts(findings).items()))
    if written is not None:
        out.print(f"written: {written['path']}, {written['bytes']:,} bytes, {written['outcome']}")
        for name in written["cut"]:
            out.print(f"  cut by --max-size: {name}")
        for name in written["missing"]:
            out.print(f"  could not be had: {name}")

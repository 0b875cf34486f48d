"""Makes certificates for developers, shows what stands in any, and looks a directory of credentials over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.output import print_facts, print_rows
from tandemq.cli.params import output_option

if TYPE_CHECKING:
    from tandemq.credentials.reading import Shown

AUTHORITY_FOLDER = "authority"  # in the user's own settings
DAYS_MAX = 3_650
SOON = timedelta(days=14)
_FOLDER = click.Path(path_type=Path)
_authority_option = click.option(
    "--dir", "authority", type=_FOLDER, metavar="DIR", help="Of the authority. Default: ~/.config/tandemq/authority."
)


@click.group()
def cert() -> None:
    """Make certificates for developers, and look at any.

    For production the same three files come from an authority that is kept with care: docs/SECURITY.md.
    """


@cert.command()
@_authority_option
@output_option("table", "json")
def init(authority: Path | None, output: str) -> None:
    """Make an authority: its certificate, and the key by which it issues others.

    Example: tandemq cert init
    """
    from tandemq.credentials.authority import create

    with _failures():
        made = create(authority_place(authority))
    print_facts({"authority": str(made.parent), "certificate": str(made)}, output)


@cert.command()
@click.argument("name")
@click.option("--out", type=_FOLDER, metavar="DIR", required=True, help="For ca.pem, cert.pem and key.pem.")
@_authority_option
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Where it is dialled, besides localhost.")
@click.option("--days", type=click.IntRange(1, DAYS_MAX), default=90, show_default=True, help="How long it is valid.")
@output_option("table", "json")
def issue(name: str, out: Path, authority: Path | None, hosts: tuple[str, ...], days: int, output: str) -> None:
    """Make a key and a certificate for NAME: a client's name, or member/PAIR/MEMBER, or witness/NAME.

    What is in DIR already is replaced: members and clients that use it go on with the new ones, and are not restarted.

    \b
    Example: tandemq cert issue billing --out ./billing
             tandemq cert issue member/orders/a --out ./a --host a.example.com
             tandemq cert issue witness/witness --out ./witness --host w.example.com
    """
    from tandemq.credentials import authority as developers
    from tandemq.credentials.reading import shown

    who = name if "/" in name else f"principal/{name}"
    with _failures():
        developers.issue(authority_place(authority), who, out, hosts=hosts, lasts=timedelta(days=days))
        print_facts({"credentials": str(out), **_facts(shown((out / "cert.pem").read_bytes()))}, output)


@cert.command()
@click.argument("directory", type=_FOLDER, metavar="DIR")
@_authority_option
@click.option("--days", type=click.IntRange(1, DAYS_MAX), default=90, show_default=True, help="How long it is valid.")
@click.option("--new-key", is_flag=True, help="Exchange the key as well.")
@output_option("table", "json")
def renew(directory: Path, authority: Path | None, days: int, new_key: bool, output: str) -> None:
    """Exchange the certificate in DIR for a new one with the same names, and ca.pem for what is believed now.

    Whoever uses DIR goes on with the new one, and is not restarted.

    Example: tandemq cert renew ./billing
    """
    from tandemq.credentials import authority as developers
    from tandemq.credentials.reading import shown

    with _failures():
        developers.renew(authority_place(authority), directory, lasts=timedelta(days=days), new_key=new_key)
        print_facts({"credentials": str(directory), **_facts(shown((directory / "cert.pem").read_bytes()))}, output)


@cert.command()
@_authority_option
@output_option("table", "json")
def rotate(authority: Path | None, output: str) -> None:
    """Take the next of three steps that exchange the authority itself; after each, renew everybody's credentials.

    \b
    1   a new authority is believed as well; the old one still issues
    2   the new authority issues; the old one is still believed
    3   the old authority is believed no more

    Example: tandemq cert rotate
    """
    from tandemq.credentials import authority as developers

    with _failures():
        step = developers.rotate(authority_place(authority))
    after = "" if step.number == 3 else ", and then `tandemq cert rotate` again"
    facts = {"step": step.number, "done": step.what, "next": f"`tandemq cert renew DIR` for everybody{after}"}
    print_facts(facts, output)


@cert.command()
@click.argument("path", type=_FOLDER, metavar="DIR|FILE")
@output_option("table", "json")
def show(path: Path, output: str) -> None:
    """Print whose a certificate is, its names, who issued it, and when it ends; or of a token. It is not checked.

    Example: tandemq cert show ./billing
    """
    from tandemq.credentials.reading import shown

    if (path / "token").exists():
        with _failures():
            print_facts(_facts_of_token(path), output)
        return
    file = path / "cert.pem" if path.is_dir() else path
    with _failures():
        print_facts(_facts(shown(file.read_bytes())), output)


@cert.command()
@click.argument("directory", type=_FOLDER, metavar="DIR")
@click.option("--target", metavar="HOST:PORT", help="Also try to connect there as whoever has them.")
@output_option()
def check(directory: Path, target: str | None, output: str) -> None:
    """Say whether a directory of credentials can be used: files, modes, names, authority, time; exit code 1 if not.

    \b
    Example: tandemq cert check ./billing
             tandemq cert check ./billing --target 127.0.0.1:7600
    """
    rows = [{"check": what, "outcome": problem or "ok"} for what, problem in _checks(directory, target)]
    print_rows(rows, "checks", output, ("check", "outcome"))
    wrong = [row for row in rows if row["outcome"] != "ok" and not row["outcome"].startswith("soon")]
    if wrong:
        raise Failure(
            "CONFIG_ERROR", wrong[0]["outcome"], "issue new ones: `tandemq cert issue NAME --out DIR`", FAILED
        )


def _checks(directory: Path, target: str | None) -> Iterator[tuple[str, str]]:
    """What was looked at, and what is wrong with it."""
    from tandemq.credentials.bad import BadCredentials
    from tandemq.credentials.files import read
    from tandemq.credentials.reading import shown
    from tandemq.credentials.sound import problems

    try:
        material = read(directory)
        if material.shows_token:
            yield "files", ""
            yield from _checks_of_token(directory, target)
            return
        found = list(problems(material, directory))
        left = shown(material.chain).ends - datetime.now(UTC)
    except (BadCredentials, ValueError) as error:
        yield "files", str(error)
        return
    yield "files", ""
    yield from found
    if left < SOON and not any(problem for what, problem in found if what == "time"):
        yield "renewal", f"soon: it ends in {left.days} days; `tandemq cert renew {directory}` makes a new one"
    if target is not None:
        from tandemq.credentials.trouble import why_not

        yield f"connection to {target}", asyncio.run(why_not(target, str(directory)))


def _checks_of_token(directory: Path, target: str | None) -> Iterator[tuple[str, str]]:
    facts = _facts_of_token(directory)
    left = (facts["ends"] or "") and datetime.fromisoformat(facts["ends"]) - datetime.now(UTC)
    yield "time", "" if left and left > timedelta(0) else f"the token ended at {facts['ends'] or '?'}; get a new one"
    if target is not None:
        from tandemq.credentials.trouble import why_not

        yield f"connection to {target}", asyncio.run(why_not(target, str(directory)))


def _facts_of_token(directory: Path) -> dict[str, Any]:
    """What it says, and never the token."""
    from tandemq.credentials.token import claims_of, read_token

    said = claims_of(read_token(directory / "token"))
    ends = said.ends.isoformat() if said.ends is not None else ""
    return {"who": said.who, "issuer": said.issuer, "audience": said.audience, "ends": ends}


def _facts(found: Shown) -> dict[str, Any]:
    return {
        "who": found.who,
        "uris": list(found.uris),
        "names": list(found.names),
        "authority": found.authority,
        "serial": found.serial,
        "begins": found.begins.isoformat(),
        "ends": found.ends.isoformat(),
    }


def authority_place(authority: Path | None = None) -> Path:
    """Where the developers' authority is kept; that of this user where none is named."""
    from tandemq.config import client_directory

    return authority if authority is not None else client_directory() / AUTHORITY_FOLDER


@contextmanager
def _failures() -> Iterator[None]:
    from tandemq.credentials.bad import BadCredentials

    try:
        yield
    except BadCredentials as error:
        raise Failure(error.reason, str(error), "", FAILED) from error
    except OSError as error:
        raise Failure("CONFIG_ERROR", f"{error.filename}: {error.strerror}", "name another place", FAILED) from error
    except ValueError as error:
        raise Failure("CONFIG_ERROR", f"that is no certificate in PEM: {error}", "", FAILED) from error

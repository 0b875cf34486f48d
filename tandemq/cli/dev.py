"""Decides what `tandemq dev` and its verbs ask of the supervisor of a development pair; it starts nothing itself."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.failure import UNREACHABLE, Failure, timed_out
from tandemq.cli.output import print_rows, say
from tandemq.cli.params import output_option

if TYPE_CHECKING:
    from chaos.cluster import Cluster

CONTROL_TIMEOUT_S = 30.0
DEFAULT_DATA_DIR = "~/.local/share/tandemq/dev"
PAIR = "dev"
CREDENTIALS = "credentials"  # below the data directory: one directory for each process, and `client`
DEVELOPER = "developer"
"""Whose the certificate of whoever types the commands is: the pair's administrator, and operator at its witness."""


@click.group(invoke_without_command=True)
@click.option(
    "--data-dir", metavar="DIR", default=DEFAULT_DATA_DIR, show_default=True, help="Where everything is kept."
)
@click.option("--base-port", type=click.IntRange(1024, 65000), default=7600, show_default=True)
@click.option("--quiet", is_flag=True, help="Show only what the supervisor says; logs are in DIR/logs.")
@click.option("--chaos", is_flag=True, help="Put Toxiproxy between the processes, for drills that hurt the network.")
@click.option(
    "--secure/--insecure", default=True, help="With certificates, which are made, as by default; or in clear text."
)
@click.pass_context
def dev(ctx: click.Context, data_dir: str, base_port: int, quiet: bool, chaos: bool, secure: bool) -> None:
    """Run members a and b and a witness on this machine until Ctrl-C.

    The pair becomes the current context: other commands find it without --target. Kill a member as you like; nothing
    restarts by itself. Everybody needs a certificate (`tandemq cert issue`) and rights (`tandemq right`); yours is
    made, is an administrator's, and is found by itself. With --insecure nobody is asked for one.

    \b
    Example: tandemq dev --data-dir ./pair
             tandemq dev --data-dir ./pair --insecure
             tandemq dev --data-dir ./pair restart b
    """
    directory = Path(data_dir).expanduser().resolve()
    ctx.obj = directory
    if ctx.invoked_subcommand is None:
        from tandemq.cli.supervisor import supervise

        supervise(_cluster(directory, base_port, chaos=chaos, secure=secure), quiet=quiet)


def _cluster(directory: Path, base_port: int, *, chaos: bool, secure: bool) -> Cluster:
    from tandemq.embedded import server_path

    server_path()
    from chaos.cluster import Cluster

    secured = directory / CREDENTIALS if secure else None
    operators = [DEVELOPER] if secure else []
    if not chaos:
        return Cluster(directory, base_port, pair=PAIR, secured=secured, operators=operators)
    from chaos.toxiproxy import find_server, package_is_there

    program = find_server()
    if program is None or not package_is_there():
        missing = "toxiproxy-python" if program is not None else "toxiproxy-server"
        step = "install tandemq[chaos] and put toxiproxy-server on the PATH (`make chaos-deps` builds it)"
        raise Failure("CONFIG_ERROR", f"--chaos needs {missing}", step)
    return Cluster(directory, base_port, pair=PAIR, toxiproxy=program, secured=secured, operators=operators)


@dev.command()
@click.argument("name")
@click.pass_obj
def restart(data_dir: Path, name: str) -> None:
    """Start a member that died, or end and start one that runs.

    Example: tandemq dev --data-dir ./pair restart b
    """
    answer = ask(data_dir, {"verb": "restart", "name": name})
    say(f"{name} runs again, pid {answer['pid']}")


@dev.command()
@output_option()
@click.pass_obj
def status(data_dir: Path, output: str) -> None:
    """Print which processes run. For roles and logs see `tandemq pair status`.

    Example: tandemq dev --data-dir ./pair status
    """
    print_rows(ask(data_dir, {"verb": "status"})["processes"], "processes", output)


@dev.command()
@click.pass_obj
def stop(data_dir: Path) -> None:
    """End all processes of the pair, as Ctrl-C in its terminal would.

    Example: tandemq dev --data-dir ./pair stop
    """
    ask(data_dir, {"verb": "stop"})
    say("stopping")


def ask(data_dir: Path, question: dict[str, Any]) -> dict[str, Any]:
    """The answer of the supervisor that runs in this directory."""
    from tandemq.cli.context import command_in, control_path

    path = control_path(data_dir)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(CONTROL_TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
            with connection.makefile("r", encoding="utf-8") as lines:
                answer: dict[str, Any] = json.loads(lines.readline() or "{}")
    except TimeoutError as error:
        raise timed_out(f"the supervisor at {path} did not answer in {CONTROL_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise Failure(
            "UNREACHABLE",
            f"no `tandemq dev` runs in {data_dir} ({error.strerror or error})",
            f"start it with `{command_in(data_dir)}`",
            UNREACHABLE,
        ) from error
    if not answer.get("ok"):
        raise Failure("INVALID_STATE", answer.get("message") or "the supervisor stopped", "see its terminal")
    return answer

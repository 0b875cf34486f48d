"""Decides which commands there are; each one's module is loaded when it is used; it never talks to a server."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError

from tandemq.escaping import escaped
from tandemq.grpc_engine import as_server

# Name, where it is, and what the list of commands says: a module is not loaded to print the list.
COMMANDS = MappingProxyType(
    {
        "demo": (
            "tandemq.cli.demo:demo",
            "Kill the master of a pair under load, twice, and account for every message.",
        ),
        "dev": ("tandemq.cli.dev:dev", "Run a pair and a witness on this machine, in the foreground."),
        "serve": ("tandemq.cli.serve:serve", "Run one queue manager."),
        "witness": ("tandemq.cli.witness:witness", "Run a witness: the third voice that decides who takes over."),
        "pair": ("tandemq.cli.pair:pair", "See how the members of a pair do, and give them orders."),
        "queue": ("tandemq.cli.queue:queue", "Create, list, change and remove queues."),
        "manager": ("tandemq.cli.statistics:manager", "See what a queue manager is and how it does."),
        "msg": ("tandemq.cli.msg:msg", "Send, receive and browse messages."),
        "unit": ("tandemq.cli.unit:unit", "See which units of work are open."),
        "xmit": ("tandemq.cli.xmit:xmit", "See what waits for other managers, and end what stands still."),
        "macro": ("tandemq.cli.macro:macro", "Make many queues look like one."),
        "proxy": ("tandemq.cli.proxy:proxy", "Make names here for queues of other managers."),
        "twin": ("tandemq.cli.twin:twin", "Run two processes that do the same, and see how they do."),
        "weights": ("tandemq.cli.weights:weights", "Say which queue of a group should get how much."),
        "right": ("tandemq.cli.right:right", "Say who may do what with which queues."),
        "audit": ("tandemq.cli.audit:audit", "See who was refused and who gave orders, in the files of a member."),
        "drill": ("tandemq.cli.drill:drill", "Hurt a pair on purpose, under load, and get a verdict."),
        "pipeline": (
            "tandemq.cli.pipeline:pipeline",
            "Keep what happened on the queues as data, with Spark, and audit it.",
        ),
        "backup": ("tandemq.cli.backup:backup", "Take, check and restore backups of a member."),
        "classifier": ("tandemq.cli.classifier:classifier", "Check, try and replay what decides who lives."),
        "cert": ("tandemq.cli.cert:cert", "Make certificates for developers, and look at any."),
        "config": ("tandemq.cli.config:config", "Check a manager's configuration, and see which manager clients find."),
        "doctor": (
            "tandemq.cli.doctor.command:doctor",
            "Look over this machine and a pair: what is wrong, what to do.",
        ),
        "version": ("tandemq.cli.version:version", "Print versions."),
    }
)


SERVERS = frozenset({"serve", "witness"})
"""Those whose process is a member's or a witness's, for as long as that lives."""


EXIT_CODES = "Exit codes: 0 done, 1 failed or refused, 2 usage, 3 unreachable, 4 timed out."


def stating_exit_codes(command: click.Command, inherited: str = EXIT_CODES) -> click.Command:
    """The same, and those below it: the help of each has all of them, its own or its group's."""
    if "Exit codes:" not in (command.help or ""):
        command.epilog = command.epilog or inherited
    if isinstance(command, click.Group):
        for each in command.commands.values():
            stating_exit_codes(each, command.epilog or inherited)
    return command


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        if cmd_name in SERVERS:
            with as_server(os.environ):
                importlib.import_module("grpc")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return stating_exit_codes(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """With the suggestion that other groups make from the commands that they have loaded."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from error

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with _escaped_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """What was typed may be any bytes, and files may have such names; a member is sent text, which is UTF-8."""
        try:
            with _escaped_errors():
                return super().invoke(ctx)
        except UnicodeEncodeError as error:
            raise click.UsageError(f"{error.object[:80]!r} is not UTF-8, and cannot be sent to a member") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@contextmanager
def _escaped_errors() -> Iterator[None]:
    """What click shows of an error is escaped: it may quote a file, or an answer."""
    try:
        yield
    except NoArgsIsHelpError:
        raise  # its text is a page of ours
    except click.ClickException as error:
        vars(error)["message"] = escaped(error.message)  # no error has a way to be made anew
        raise


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
def root() -> None:
    """Tandemq: a fault-tolerant queue service in which two managers keep every queue.

    \b
    Try it:  tandemq demo
    Use it:  tandemq dev                        (a pair on this machine)
             tandemq queue create orders
             tandemq msg send orders hello
             tandemq msg receive orders --ack
    """


def _show_stack(kind: type[BaseException], error: BaseException, stack: TracebackType | None) -> None:
    """As Python does, escaped: its last line may be what a server said."""
    from tandemq.cli.output import say_lines

    say_lines("".join(traceback.format_exception(kind, error, stack)), err=True)


def main() -> None:
    sys.excepthook = _show_stack
    root(prog_name="tandemq")

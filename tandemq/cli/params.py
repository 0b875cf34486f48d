"""Decides how values on the command line are read and which options many commands share; it never acts on them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:  # generic for type checkers; older versions of click cannot be subscripted at run time
    WholeType = click.ParamType[int]
    PairType = click.ParamType[tuple[str, str]]
else:
    WholeType = PairType = click.ParamType

Command = TypeVar("Command", bound=Callable[..., Any])

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
FORMATS = ("table", "json", "jsonl")


class DurationType(WholeType):
    """`500ms`, `5s`, `2m`, `1h`, `1d`; milliseconds as a whole number. A bare 0 is a duration too."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if value.strip() == "0":
            return 0
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", value.strip())
        if not match:
            self.fail(f"{value!r} is not a duration; write a number and a unit: 500ms, 5s, 2m, 1h, 1d", param, ctx)
        return round(float(match[1]) * _UNITS_MS[match[2]])


class SizeType(WholeType):
    """`512`, `64KiB`, `1MiB`, `8GiB` (also k, m, g); bytes as a whole number."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+)\s*(?:([kmg])(?:ib|b)?|b)?", value.strip().lower())
        if not match:
            self.fail(f"{value!r} is not a size; write bytes or a number with KiB, MiB, GiB", param, ctx)
        return int(match[1]) * _UNITS_BYTES[match[2] or ""]


class PropertyType(PairType):
    """`key=value`; the value is text."""

    name = "k=v"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, separator, text = value.partition("=")
        if not separator or not key:
            self.fail(f"{value!r} is not a property; write key=value", param, ctx)
        return key, text


DURATION, SIZE, PROPERTY = DurationType(), SizeType(), PropertyType()


def target_option(command: Command) -> Command:
    return click.option(
        "--target",
        metavar="HOST:PORT[,...]",
        help="Members to ask. Default: $TANDEMQ_TARGET, then the current context.",
    )(command)


def timeout_option(default: str = "10s") -> Callable[[Command], Command]:
    return click.option(
        "--timeout", "timeout_ms", type=DURATION, default=default, show_default=True, help="Give up after this long."
    )


def output_option(*formats: str) -> Callable[[Command], Command]:
    """`-o`. Without it: the first format offered; elsewhere than on a terminal a table becomes json."""
    offered = formats or FORMATS
    elsewhere = (
        next((form for form in ("json", "jsonl") if form in offered), "") if offered[0] == "table" else offered[0]
    )

    def resolve(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
        del ctx, param
        return value or (offered[0] if sys.stdout.isatty() else elsewhere)

    return click.option(
        "-o",
        "--output",
        type=click.Choice(offered),
        callback=resolve,
        help=f"Default: {offered[0]} on a terminal, else {elsewhere}.",
    )


def yes_option(command: Command) -> Command:
    return click.option("--yes", is_flag=True, help="Do not ask; needed when there is no terminal.")(command)


def confirm(verb: str, name: str, *, yes: bool) -> None:
    """Lets a destructive command pass only when the object's name was typed, or --yes given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"to {verb} {name} without a terminal, add --yes")
    typed = click.prompt(f"This will {verb} {name}. Type its name to go on", default="", show_default=False)
    if typed != name:
        raise click.Abort

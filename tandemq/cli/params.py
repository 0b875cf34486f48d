"""Decides how values on the command line are read and which options many commands share; it never acts on them."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tandemq.escaping import escaped

if TYPE_CHECKING:  # generic for type checkers; older versions of click cannot be subscripted at run time
    WholeType = click.ParamType[int]
    PairType = click.ParamType[tuple[str, str]]
    TypedPairType = click.ParamType[tuple[str, "TypedValue"]]
    MomentParamType = click.ParamType[datetime]
else:
    WholeType = PairType = TypedPairType = MomentParamType = click.ParamType

Command = TypeVar("Command", bound=Callable[..., Any])
TypedValue = str | int | float | bool

_UNITS_MS = MappingProxyType({"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000})
_UNITS_BYTES = MappingProxyType({"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30})
DURATION_MS_MAX = 36_500 * _UNITS_MS["d"]  # a hundred years; nothing here is meant to take longer
SIZE_MAX = 1 << 60
FORMATS = ("table", "json", "jsonl")


class DurationType(WholeType):
    """`500ms`, `5s`, `2m`, `1h`, `1d`; milliseconds as a whole number. A bare 0 is a duration too."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if value.strip() == "0":
            return 0
        match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(ms|s|m|h|d)", value.strip())
        if not match:
            self.fail(f"{value!r} is not a duration; write a number and a unit: 500ms, 5s, 2m, 1h, 1d", param, ctx)
        duration_ms = round(float(match[1]) * _UNITS_MS[match[2]])
        if duration_ms > DURATION_MS_MAX:
            self.fail(f"{value!r} is longer than {DURATION_MS_MAX // _UNITS_MS['d']}d", param, ctx)
        return duration_ms


class SizeType(WholeType):
    """`512`, `64KiB`, `1MiB`, `8GiB` (also k, m, g); bytes as a whole number."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"([0-9]{1,19})\s*(?:([kmg])(?:ib|b)?|b)?", value.strip().lower())
        if not match:
            self.fail(f"{value!r} is not a size; write bytes or a number with KiB, MiB, GiB", param, ctx)
        size = int(match[1]) * _UNITS_BYTES[match[2] or ""]
        if size > SIZE_MAX:
            self.fail(f"{value!r} is more than {SIZE_MAX >> 30}GiB", param, ctx)
        return size


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


class TypedPropertyType(TypedPairType):
    """`key=text`; `key:=value` for an integer, a number, true or false. A selector compares values of one kind only."""

    name = "k=v or k:=v"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, TypedValue]:
        if isinstance(value, tuple):
            return value
        key, separator, text = value.partition("=")
        typed = key.endswith(":")
        key = key.removesuffix(":") if typed else key
        if not separator or not key:
            self.fail(f"{value!r} is not a property; write colour=red for text, weight:=2 for a number", param, ctx)
        if not typed:
            return key, text
        found = _typed(text)
        if found is None:
            examples = f"{key}:=2, {key}:=2.5, {key}:=true or {key}:=false; {key}=VALUE for text"
            self.fail(f"{text!r} is no integer of 64 bits, number, true or false; write {examples}", param, ctx)
        return key, found


def _typed(text: str) -> TypedValue | None:
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        whole = int(text)
        return whole if INTEGER_MIN <= whole <= INTEGER_MAX else None
    if re.fullmatch(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?", text) and not text.lstrip("-").isdecimal():
        number = float(text)
        return number if math.isfinite(number) else None
    return None


class MomentType(MomentParamType):
    """A moment as RFC 3339 has it, with its offset from UTC, from 1970 to 9999."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        text = value.strip().upper()
        try:
            found = datetime.fromisoformat(text) if _MOMENT.fullmatch(text) else None
        except ValueError:  # of this shape, but not in the calendar
            found = None
        if found is None or not _MOMENT_MIN <= found <= _MOMENT_MAX:
            example = "2030-12-24T18:00:00Z or 2030-12-24T18:00:00+01:00"
            self.fail(f"{value!r} is not a moment from 1970 to 9999 with its offset; write {example}", param, ctx)
        return found


_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_MOMENT_MIN, _MOMENT_MAX = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 63) - 1  # of a property, in the contract

DURATION, SIZE, PROPERTY = DurationType(), SizeType(), PropertyType()
TYPED_PROPERTY, MOMENT = TypedPropertyType(), MomentType()


def target_option(command: Command) -> Command:
    return click.option(
        "--target",
        metavar="HOST:PORT[,...]",
        help="Members to ask, or //NAME of a manager. Default: see `tandemq config where`.",
    )(credentials_option(command))


def credentials_option(command: Command) -> Command:
    """For who asks with `tandemq.cli.opening`, which remembers it."""
    from tandemq.cli.opening import keep_given

    return click.option(
        "--credentials",
        metavar="DIR",
        expose_value=False,
        callback=keep_given,
        help="Certificates to show. Default: $TANDEMQ_CREDENTIALS, else the context's.",
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
    typed = click.prompt(f"This will {verb} {escaped(name)}. Type its name to go on", default="", show_default=False)
    if typed != name:
        raise click.Abort

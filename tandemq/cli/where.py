"""Decides which messages the options --where, --id, --correlation-id and --group-id name; it never looks for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tandemq.client.filtering import Where

ID_BYTES = 16


def _ids(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[bytes, ...]:
    found = []
    for value in values:
        try:
            found.append(bytes.fromhex(value))
        except ValueError:
            found.append(b"")
        if len(found[-1]) != ID_BYTES:
            raise click.BadParameter(f"{value!r} is not a message id; write its {2 * ID_BYTES} hexadecimal digits")
    return tuple(found)


def where_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets `where`: None when none of the options was given."""

    @functools.wraps(command)
    def with_where(
        *args: Any, selector: str, ids: tuple[bytes, ...], correlation_id: str | None, group_id: str | None, **more: Any
    ) -> Any:
        where: Where | None = None
        if selector or ids or correlation_id is not None or group_id is not None:
            from tandemq.client.filtering import Where

            where = Where(selector, ids, correlation_id, group_id)
        return command(*args, where=where, **more)

    for option in (
        click.option("--where", "selector", default="", help="Only these: \"colour = 'red' AND weight > 2\"."),
        click.option("--id", "ids", multiple=True, callback=_ids, help="Only this message; repeatable."),
        click.option("--correlation-id", help="Only with this one."),
        click.option("--group-id", help="Only of this group."),
    ):
        with_where = option(with_where)
    return with_where

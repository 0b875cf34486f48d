"""Tells what each resolver says of a name, one after another, as a person wants to see it; it remembers nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import NamedTuple

from tandemq.client.target import NoTarget
from tandemq.finding.directory import ALIAS_STEPS_MAX, TIMEOUT_S
from tandemq.finding.resolver import Answer, BadEntry, Exported, Manager, Resolver, ResolverAway
from tandemq.finding.resolvers import standard
from tandemq.finding.target import Target


class Asked(NamedTuple):
    """One resolver's word on one name."""

    source: str
    name: str
    outcome: str


class Led(NamedTuple):
    """Where a name leads; no managers when nowhere."""

    asked: tuple[Asked, ...]
    managers: tuple[Manager, ...]
    source: str  # that knew the managers; empty when nobody did


async def explain(target: Target, environment: Mapping[str, str] = os.environ) -> Led:
    """Asks as a client would, and keeps a record of it. Raises BadProfile for a file that cannot be used."""
    asked: list[Asked] = []
    resolvers = standard(environment)
    try:
        name = target.manager
        if not name:
            exported, source = await _first(resolvers, target.queue, asked, exported=True)
            if not isinstance(exported, Exported):
                return Led(tuple(asked), (), "")
            if exported.endpoints:
                return Led(tuple(asked), (Manager(exported.manager, exported.endpoints),), source)
            name = exported.manager
        for _ in range(ALIAS_STEPS_MAX):
            answer, source = await _first(resolvers, name, asked, exported=False)
            if not isinstance(answer, Answer):
                break
            if answer.managers:
                return Led(tuple(asked), answer.managers, source)
            name = answer.alias_of
        return Led(tuple(asked), (), "")
    finally:
        for resolver in resolvers:
            await resolver.close()


async def _first(
    resolvers: list[Resolver], name: str, asked: list[Asked], *, exported: bool
) -> tuple[Answer | Exported | None, str]:
    shown = f"///{name}" if exported else f"//{name}"
    for resolver in resolvers:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                found = await (resolver.resolve_queue(name) if exported else resolver.resolve(name))
        except (ResolverAway, OSError) as error:
            asked.append(Asked(resolver.source, shown, f"is away: {str(error) or f'no answer within {TIMEOUT_S:g} s'}"))
            continue
        except (BadEntry, NoTarget) as error:
            asked.append(Asked(resolver.source, shown, f"cannot be used: {error}"))
            return None, ""
        asked.append(Asked(resolver.source, shown, _outcome(found)))
        if found is not None:
            return found, resolver.source
    return None, ""


def _outcome(found: Answer | Exported | None) -> str:
    match found:
        case None:
            return "does not know it"
        case Exported(manager=manager):
            return f"exported by {manager}"
        case Answer(alias_of=""):
            return "decides: " + "; ".join(map(str, found.managers))
        case _:
            return f"alias of {found.alias_of}"

"""The rights of the demo, and what must come of each call by them: a model of its own, which knows nothing of the pair.

Patterns are turned into regular expressions here, and looked through one by one: another way than the product's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import NamedTuple

from chaos.secure.calls import Call, Verb

OPS = "ops"
"""Administrator of the configuration."""
PRINCIPALS = (OPS, "billing", "shop", "keeper", "night")
BY_TOKEN = ("keeper", "night")
"""Those of them who show a token, and have no certificate."""
EXISTING = ("orders", "orders/eu", "orders/eu/north", "stock/paris", "secret")
NOWHERE = "nowhere"
"""No queue."""
QUEUES = (*EXISTING, NOWHERE)
ON_QUEUES = frozenset((Verb.PRODUCE, Verb.CONSUME, Verb.BROWSE, Verb.ADMINISTER))


class Answer(StrEnum):
    """What became of a call."""

    ALLOWED = "allowed"
    """It was let in, whatever was said to it then."""
    DENIED = "denied"
    """PERMISSION_DENIED."""
    HIDDEN = "hidden"
    """The queue is not there for whoever asks."""
    UNKNOWN = "unknown"
    """No answer came that says which."""


class Granted(NamedTuple):
    """One grant."""

    principal: str
    verb: Verb
    pattern: str = ""
    """Empty: on the pair."""


GRANTS = (
    Granted("billing", Verb.PRODUCE, "orders/**"),
    Granted("billing", Verb.PRODUCE, "orders"),
    Granted("billing", Verb.CONSUME, "stock/*"),
    Granted("shop", Verb.CONSUME, "orders/eu"),
    Granted("shop", Verb.BROWSE, "orders/*"),
    Granted("shop", Verb.OBSERVE),
    Granted("keeper", Verb.ADMINISTER, "stock/**"),
    Granted("keeper", Verb.ADMINISTER, "nowhere"),
    Granted("keeper", Verb.PRODUCE, "*"),
    Granted("night", Verb.OBSERVE),
    Granted("night", Verb.OPERATE),
    Granted("night", Verb.BROWSE, "**"),
)


def expected(call: Call, principal: str, queue: str, grants: Collection[Granted]) -> Answer:
    """What must come of it."""
    if principal == OPS:
        return Answer.ALLOWED
    own = [each for each in grants if each.principal == principal]
    for verb in call.verbs:
        if not _has(verb, queue, own):
            seen = call.makes or verb not in {*ON_QUEUES, Verb.SEE} or _sees(queue, own)
            return Answer.DENIED if seen else Answer.HIDDEN
    return Answer.ALLOWED


def fits(expected_one: Answer, found: Answer, queue: str) -> bool:
    """Whether an answer is the right one. Where there is no queue whoever may do it hears so as well."""
    if queue == NOWHERE and expected_one is Answer.ALLOWED:
        return found in (Answer.ALLOWED, Answer.HIDDEN)
    return found is expected_one


def _has(verb: Verb, queue: str, own: Iterable[Granted]) -> bool:
    if verb in ON_QUEUES:
        return any(each.verb is verb and covers(each.pattern, queue) for each in own)
    if verb is Verb.SEE:
        return _sees(queue, own)
    if verb is Verb.PRODUCE_SOMEWHERE:
        return any(each.verb is Verb.PRODUCE for each in own)
    if verb is Verb.BROWSE_ALL:
        return any(each.verb is Verb.BROWSE and each.pattern == "**" for each in own)
    if verb is Verb.RIGHTS:
        return False
    return verb is Verb.ANYBODY or any(each.verb is verb for each in own)


def _sees(queue: str, own: Iterable[Granted]) -> bool:
    return any(each.verb in ON_QUEUES and covers(each.pattern, queue) for each in own)


def covers(pattern: str, queue: str) -> bool:
    """`*` at the end is one segment, `**` one or more."""
    above, star, stars = pattern.rpartition("*")[0], pattern.endswith("*"), pattern.endswith("**")
    if not star:
        return pattern == queue
    rest = "[^/]+(/[^/]+)*" if stars else "[^/]+"
    return re.fullmatch(re.escape(above.removesuffix("*")) + rest, queue) is not None

"""Names what carries out each kind of step, and carries out lists of them; knows no driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.support.listed import admin, messages, reactions, units
from tests.support.listed.messages import ASIDE, NAMES
from tests.support.listed.reaction_model import UnsureError
from tests.support.listed.run import Run
from tests.support.listed.steps import KINDS, Step


def strike(run: Run, step: Step) -> None:
    """Nothing else meanwhile: what strikes does so between two calls."""


def calm(run: Run, _step: Step) -> None:
    run.calm()


def time(run: Run, _step: Step) -> None:
    """What ends next by itself."""
    run.calm()
    run.step_over()


DOING: dict[str, Callable[[Run, Step], None]] = {
    "send": messages.send,
    "receive": messages.receive,
    "settle": messages.settle,
    "reply": messages.reply,
    "unit": units.unit,
    "transact": units.transact,
    "react": reactions.react,
    "check": messages.check,
    "browse": messages.browse,
    "again": messages.again,
    "create": admin.create,
    "update": admin.update,
    "purge": admin.purge,
    "delete": admin.delete,
    "alias": admin.alias,
    "state": admin.state,
    "look": admin.look,
    "strike": strike,
    "calm": calm,
    "time": time,
}
assert DOING.keys() == KINDS.keys()


def carry_out(run: Run, steps: Iterable[Step]) -> None:
    """The two queues, and then the steps; at the end everything is looked at."""
    for name, kind in zip(NAMES, run.kinds, strict=True):
        admin.make(run, Step("create", "a"), name, kind)
    admin.make(run, Step("create", "a"), ASIDE, 0)
    for step in steps:
        try:
            run.carry_out(step, DOING[step.kind])
        except UnsureError:
            run.count("time", "unsure")
            return
    finish(run)


def finish(run: Run) -> None:
    """Everything is whole, and each message is where the model has it."""
    run.struck = True  # so that the copies are compared, whether or not something struck
    run.clear_the_way(0)
    run.calm()
    for number in range(len(run.model.queues)):
        name = sorted(run.model.queues)[number]
        messages.browse_all(run, "ab"[number % 2], name)

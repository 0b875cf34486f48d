"""Asks plug-ins and commands what becomes of messages, off the loop and within limits (V10). Whatever goes wrong is
said of the message that was asked about; decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING

from replica.rpc.refusals import refusal
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replica.core.ordering.reaction import Advice, Effect
    from replica.core.state.outcomes import Failed
    from replica.services.messages.custom_advisers import Adviser, Said
    from tandemq.config_custom import Custom
    from tandemq.v1 import reaction_service_pb2 as pb

LEAVE, DELETE, MOVE, UPDATE, FAILED = "leave", "delete", "move", "update", "failed"
SAID = (LEAVE, DELETE, MOVE, UPDATE, FAILED)
"""What an answer can come to, as it is counted."""

log = logging.getLogger("tandemq.reactions")


def advisers_of(config: Custom) -> Mapping[str, Adviser]:
    """Whom the configuration names. Blocks while modules are imported. Raises ConfigError."""
    if not config.plugins and not config.commands:
        return {}
    from replica.services.messages.custom_advisers import all_of  # and a client's modules, which few need

    return all_of(config)


class Customs:
    """Whom reactions may ask at one member."""

    def __init__(self, config: Custom, asked: Mapping[str, Adviser]) -> None:
        """`asked`: by name. For the event loop in which it is used."""
        self.call_s, self.total_s = config.call_ms / 1000, config.total_ms / 1000
        self._asked = asked
        self.counts: Counter[tuple[str, str]] = Counter({(name, said): 0 for name in self._asked for said in SAID})
        """By name and what was said."""
        self._failed_calls: Counter[str] = Counter()
        """By name, calls of which messages failed."""

    def close(self) -> None:
        """Ends what plug-ins keep running, where it lets itself be ended."""
        for each in self._asked.values():
            each.close()

    def problem_of(self, name: str, member: str, *, listed: bool = True) -> Failed | None:
        """Whether there is nobody of that name. `listed`: the caller may know who there is."""
        if name in self._asked:
            return None
        known = f" (known there: {', '.join(sorted(self._asked)) or 'none'})" if listed else ""
        text = (
            f"no custom reaction is called {name[:100]!r} at {member}, which is master: name it in custom.plugins or "
            f"custom.commands of both members{known}"
        )
        return refusal(Reason.REASON_REACTION_DISABLED, text, {"member": member})

    async def ask(self, custom: pb.ReactionCustom, queue: str, asking: Advice, until_s: float, bytes_max: int) -> None:
        """What is to be asked before the next turn. `until_s`: of the loop; then nobody is asked any more, and nothing
        starts. `bytes_max`: of all changes together; beyond it nobody is asked either, and the caller refuses.
        """
        asked, loop = self._asked[asking.name], asyncio.get_running_loop()
        for found in asking.questions:
            said: Said = "there was no time left to ask about it"
            if loop.time() < until_s:  # a deadline that is past cancels nothing before the first wait
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(until_s):
                        said = await asked.ask(custom, queue, found, self.call_s)
            if isinstance(said, str):
                asking.failed[found.index] = said
                continue
            asking.effects[found.index] = said
            if said is not None and said.update is not None:
                asking.bytes += said.update.ByteSize()
                if asking.bytes > bytes_max:
                    return

    def count(self, queue: str, asking: Advice) -> None:
        """What came of asking; those that failed stand in the log: what a program says of itself too, which is others'
        text. So of the first call, and again when they have doubled; the counts know all.
        """
        for index, effect in asking.effects.items():
            if index not in asking.failed:
                self.counts[asking.name, _name_of(effect)] += 1
        if not asking.failed:
            return
        self.counts[asking.name, FAILED] += len(asking.failed)
        self._failed_calls[asking.name] += 1
        calls = self._failed_calls[asking.name]
        if calls & (calls - 1):
            return
        text = (
            "custom reaction %s failed for %d of %d messages of queue %s, which stay as they are (%d such calls so "
            "far); the first: %s"
        )
        total = len(asking.effects.keys() | asking.failed.keys())
        log.warning(text, asking.name, len(asking.failed), total, queue, calls, next(iter(asking.failed.values())))


def _name_of(effect: Effect | None) -> str:
    if effect is None:
        return LEAVE
    if effect.update is not None:
        return UPDATE
    return MOVE if effect.to else DELETE

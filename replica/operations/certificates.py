"""Watches the credentials of one member: reports what cannot come into force, and what ends soon; exchanges nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tandemq.credentials.reading import shown
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tandemq.credentials.files import Credentials

SOON_S = 14 * 86_400
"""How long before its end a certificate is reported, once. The alert looks at the same."""
FAULT = PairEventKind.PAIR_EVENT_KIND_FAULT


class Certificates:
    """What a member shows of its credentials. On the loop; its attributes may be read from any thread."""

    def __init__(
        self, credentials: Credentials, note: Callable[[int, str], object], now_s: Callable[[], float] = time.time
    ) -> None:
        self._credentials, self._note, self._now_s = credentials, note, now_s
        self.exchanged = 0
        """How often others came into force since the start."""
        self.ends_s = self._end()
        """When the certificate in force ends, in seconds of Unix."""
        self._generation = credentials.generation()
        self._refused = ""
        self._reported_s = 0.0

    @property
    def refused(self) -> bool:
        """Whether the files that are there now cannot be used, and older ones stay in force."""
        return bool(self._refused)

    def look(self, _now_ms: int) -> None:
        """Called at each tick of the node; the files are looked at once a second."""
        generation = self._credentials.generation()
        if generation != self._generation:
            self._generation, self.exchanged = generation, self.exchanged + 1
            self.ends_s = self._end()
        if (refused := self._credentials.refused) != self._refused:
            self._refused = refused
            text = (
                f"the credentials that were in force stay: {refused}"
                if refused
                else "the credentials can be used again"
            )
            self._note(FAULT, text)
        if self.ends_s - self._now_s() < SOON_S and self._reported_s != self.ends_s:
            self._reported_s = self.ends_s
            when = shown(self._credentials.material.chain).ends.isoformat()
            where = self._credentials.directory
            self._note(FAULT, f"the certificate in {where} ends at {when}: renew it, or connections end then")

    def _end(self) -> float:
        return shown(self._credentials.material.chain).ends.timestamp()

"""Keeps the journal for a lake by a named reader at the pair, which stands where the lake ends. Trimming waits for it
while no ingest runs, up to limits.reader_bytes and reader_hours of the members. It reads no record.

One reader for both members: it stands at the end of the one that the lake has least of. Nobody deletes it: a lake that
is not followed any more lets it expire.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import tandemq
from pipeline.config import Pipeline
from pipeline.lake import Lake, Place
from pipeline.problems import PipelineError
from tandemq.client.places import JournalPosition
from tandemq.errors import NotFound, Refused, TandemqError

OWN = "own"
"""As ingest.reader: a name that the lake has made up for itself."""
AGAIN_S = 1.0


class Keeping:
    """The reader of one lake. For who holds `lake.locked` and has claimed it."""

    def __init__(self, config: Pipeline, lake: Lake, notify: Callable[[str], None]) -> None:
        self._source, self._lake, self._report = config.source, lake, notify
        wanted = config.ingest.reader
        self.name = lake.name() if wanted == OWN else wanted
        """Empty: nothing is kept for this lake."""
        self._registered = False
        self._reported: Place | None = None
        self._again_at = 0.0

    def look(self, ends: Sequence[Place | None]) -> None:
        """Report to the pair where the lake ends, when it does not know. ends: of each member that is followed; None:
        the lake has nothing of it yet, and its beginning stays kept.

        What may pass is reported, and tried again a second later. Raises PipelineError, with reason READER_LOST when
        what the lake lacks was given up.
        """
        known = [end for end in ends if end is not None]
        place = min(known) if known and len(known) == len(ends) else None
        if not self.name or (self._registered and place in (None, self._reported)) or time.monotonic() < self._again_at:
            return
        try:
            with tandemq.connect(self._source.target, timeout=self._source.timeout_s) as client:
                if not self._registered:
                    self._begin(client)
                    self._registered = True
                if place is not None:
                    self._advance(client, place)
                    self._reported = place
        except TandemqError as error:
            problem = PipelineError(error.reason, error.message or error.reason)
            if not problem.may_pass:
                raise problem from error
            self._report(f"reader {self.name}: waits: {problem}")
            self._again_at = time.monotonic() + AGAIN_S

    def _begin(self, client: tandemq.Client) -> None:
        """Where the lake ends, unless the pair has a place for it already."""
        ends = [end for member in self._lake.members() if (end := self._lake.end(member)) is not None]
        start = min(ends) if ends else None
        try:
            self._register(client, start)
        except Refused as refused:
            if refused.reason == "READER_LOST":
                self._go_on(client, start, refused)
            elif refused.reason == "OUT_OF_RANGE" and start is not None:
                self._register(client, None)  # whether a member's own copy has it, reading that copy shows
            else:
                raise

    def _advance(self, client: tandemq.Client, place: Place) -> None:
        try:
            client.advance_reader(self.name, self._position(place), domain=self._source.domain)
        except NotFound as error:
            if error.reason != "READER_NOT_FOUND":
                raise
            self._register(client, place)  # it has expired, or somebody has deleted it
        except Refused as refused:
            if refused.reason != "READER_LOST":
                raise
            self._go_on(client, place, refused)

    def _register(self, client: tandemq.Client, start: Place | None, *, restart: bool = False) -> None:
        where = self._position(start) if start else None
        client.register_reader(self.name, where, restart=restart, domain=self._source.domain)

    def _position(self, place: Place) -> JournalPosition:
        return JournalPosition(place.log_index, place.epoch, history_id=self._lake.history_id())

    def _go_on(self, client: tandemq.Client, place: Place | None, refused: Refused) -> None:
        """It has lost its place. Nothing is lost to a lake that ends behind what was given up, and died before it could
        say so. Raises PipelineError with reason READER_LOST otherwise.
        """
        if place is None or place.log_index < int(refused.metadata["lost_until_log_index"]):
            raise PipelineError(refused.reason, f"{self._lake.path}: {refused.message}") from refused
        self._register(client, place, restart=True)

"""Says aloud what a traced process has promised, and keeps what it did, so that an image can be compared with it.

What is said goes to a file that is part of the trace: so it stands between the very system calls that it was said
between. `doing 7` comes before the seventh step, `done 7` after it was promised.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from storage.store import Store, WriteBatch

if TYPE_CHECKING:
    from storage.disk import DiskStore


@dataclass(slots=True)
class Story:
    """What one traced process did: `steps[0]` is what `doing 1` announced."""

    steps: list[Any] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """Whatever else the judge of this scenario must know."""


class Voice:
    """The voice of a traced process."""

    def __init__(self, said: Path, story: Path) -> None:
        self._said = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._path = story
        self.story = Story()

    def say(self, text: str) -> None:
        """Before the next system call of this thread."""
        os.write(self._said, f"{text}\n".encode())

    def doing(self, step: Any) -> int:
        """The next step begins; its number."""
        self.story.steps.append(step)
        self.say(f"doing {len(self.story.steps)}")
        return len(self.story.steps)

    def done(self, number: int) -> None:
        """It is promised."""
        self.say(f"done {number}")

    def close(self) -> None:
        """Keeps the story."""
        self._path.write_bytes(pickle.dumps(self.story))
        os.close(self._said)


class AnnouncingStore:
    """A disk store whose every commit is announced."""

    def __init__(self, store: DiskStore, voice: Voice) -> None:
        self._store = store
        self._voice = voice

    def commit(self, batch: WriteBatch) -> None:
        number = self._voice.doing(pickle.loads(pickle.dumps(batch)))  # as it is now: the caller may go on with it
        self._store.commit(batch)
        self._voice.done(number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def announcing(store: DiskStore, voice: Voice) -> Store:
    """The store, announcing its commits."""
    return cast("Store", AnnouncingStore(store, voice))


def read_story(path: Path) -> Story:
    """What `Teller.close` kept."""
    story: Story = pickle.loads(path.read_bytes())
    return story

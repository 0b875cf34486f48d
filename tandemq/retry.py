"""Decides which endpoint is asked next, after what delay, and when to give up.

It never sleeps, reads a clock, draws a random number or knows gRPC: a failure goes in, the next attempt comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tandemq.errors import InDoubt, TandemqError
from tandemq.over_quota import QUOTA


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds of one call, or of one stream between two signs of progress. Seconds."""

    total_s: float = 30.0  # without progress, from the first attempt; then the caller gets the last error
    attempt_s: float = 5.0  # one attempt; members park calls about as long while there is no master
    delay_first_s: float = 0.05  # upper bound of the first delay; doubles with each failure
    delay_max_s: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.delay_first_s <= self.delay_max_s or self.total_s <= 0 or self.attempt_s <= 0:
            raise ValueError(f"times must be positive and rise: {self}")


class Kind(Enum):
    """What became of an attempt that may be repeated."""

    MOVED = auto()  # it answered: somebody else is master
    NOT_YET = auto()  # it answered: ask again later
    AWAY = auto()  # it did not answer, or its connection broke
    PACED = auto()  # it answered: this client has had its share there; another member would give it a second one


@dataclass(frozen=True, slots=True)
class Failure:
    kind: Kind
    master: str = ""  # host:port; empty when it was not named
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Attempt:
    endpoint: str
    delay_s: float


def failure_of(error: TandemqError) -> Failure | None:
    """What an error means for the next attempt; None when it is final."""
    if not error.retryable:
        return None
    wait_s = error.retry_after.total_seconds() if error.retry_after is not None else 0.0
    if isinstance(error, InDoubt):
        return Failure(Kind.AWAY, retry_after_s=wait_s)
    if QUOTA in error.metadata:
        return Failure(Kind.PACED, retry_after_s=wait_s)
    master = error.metadata.get("master", "")
    return Failure(Kind.MOVED if master else Kind.NOT_YET, master, wait_s)


def first_endpoint(endpoints: Sequence[str], master: str) -> str:
    """The master if it is known, else the first that the user named; empty while nobody knows where the manager is."""
    return master or (endpoints[0] if endpoints else "")


def next_attempt(
    policy: Policy,
    endpoints: Sequence[str],
    current: str,
    failure: Failure,
    *,
    failures: int,
    elapsed_s: float,
    jitter: float,
) -> Attempt | None:
    """Where to go after `failures` (at least 1) failures in a row, `elapsed_s` after the first attempt began.

    A named master is asked next, at once when it is the first failure. Otherwise the endpoints take turns. `jitter` is
    from [0, 1) and scales the delay, so that clients which failed together do not come back together. None: give up.
    """
    assert failures >= 1
    assert 0 <= jitter < 1
    delay_s = jitter * min(policy.delay_max_s, policy.delay_first_s * 2.0 ** min(failures - 1, 30))
    if failure.kind is Kind.MOVED and failure.master and failure.master != current:
        endpoint = failure.master
        if failures == 1:
            delay_s = 0.0
    elif failure.kind is Kind.PACED and current:
        endpoint = current
    elif endpoints:
        place = endpoints.index(current) if current in endpoints else -1
        endpoint = endpoints[(place + 1) % len(endpoints)]
    else:
        endpoint = ""
    delay_s = max(delay_s, failure.retry_after_s)
    return None if elapsed_s + delay_s >= policy.total_s else Attempt(endpoint, delay_s)

"""How much each principal has asked of this member, against what it may: token buckets, refilled by the second.

Who has used up a second's worth is refused until it is paid for, with the time that takes; a call that is let in may
take more than is left, so that no batch is too large to be ever sent. It never sleeps, and reads no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from replica.core.state.outcomes import Failed
from tandemq.config_quotas import EVERYBODY, Quota
from tandemq.over_quota import QUOTA
from tandemq.v1.common_pb2 import Reason

ACCOUNTS_MAX = 10_000
"""Principals that are remembered at a time; beyond it those that owe nothing are forgotten."""
PLACE_AGAIN_MS = 1_000
"""When a place for a stream, a connection or a unit may be free: nobody knows."""
CONNECTION_MS = 10_000
"""So long after it last began a call a connection without streams counts as one in use: nobody hears of its end."""
RATES = ("messages", "bytes", "calls")
REFUSALS_AT_ONCE, REFUSAL_MS = 20, 10
"""Of one principal: so many are answered at once, and then one in as many milliseconds. Whoever waits as it is asked to
is not refused so often; whoever does not would take the loop from everybody with nothing but refusals.
"""
REFUSAL_MS_MAX = 1_000
"""So late is a refusal at most."""


class Spent(NamedTuple):
    """What one call or one batch takes."""

    messages: int = 0
    bytes: int = 0
    calls: int = 0


class TokenBucket:
    """Of one kind. Holds a second's worth at most; below zero it owes."""

    __slots__ = ("_at_ms", "_level", "rate")

    def __init__(self, rate: int, now_ms: int) -> None:
        self.rate = rate
        self._level = float(rate)
        self._at_ms = now_ms

    def owed_ms(self, now_ms: int) -> int:
        """Until it is above zero; 0: it is."""
        self._fill(now_ms)
        return 0 if self._level > 0 else int(-self._level * 1_000 / self.rate) + 1

    def spend(self, amount: int, now_ms: int) -> None:
        """Also more than there is."""
        self._fill(now_ms)
        self._level -= amount

    def is_full(self, now_ms: int) -> bool:
        """Nothing is remembered by it."""
        self._fill(now_ms)
        return self._level >= self.rate

    def _fill(self, now_ms: int) -> None:
        passed_ms = max(0, now_ms - self._at_ms)
        self._level = min(float(self.rate), self._level + passed_ms * self.rate / 1_000)
        self._at_ms = now_ms


class RefusalPace:
    """When the refusals of one principal are answered, in the order in which they came."""

    __slots__ = ("_free_at_ms",)

    def __init__(self) -> None:
        self._free_at_ms = -REFUSALS_AT_ONCE * REFUSAL_MS

    def wait_ms(self, now_ms: int) -> int:
        """Until one more is answered; 0: now."""
        free_at_ms = max(self._free_at_ms, now_ms - REFUSALS_AT_ONCE * REFUSAL_MS) + REFUSAL_MS
        self._free_at_ms = min(free_at_ms, now_ms + REFUSAL_MS_MAX)
        return max(0, self._free_at_ms - now_ms)

    def is_idle(self, now_ms: int) -> bool:
        """A new one would be the same."""
        return self._free_at_ms <= now_ms - REFUSALS_AT_ONCE * REFUSAL_MS


class Connections:
    """Those of one principal that are in use, by what gRPC calls the other end. Never more of them than it may have."""

    __slots__ = ("_last_ms", "_streams")

    def __init__(self) -> None:
        self._last_ms: dict[str, int] = {}
        """When each last began a call, or a stream of it ended."""
        self._streams: Counter[str] = Counter()

    def take(self, peer: str, most: int, now_ms: int) -> bool:
        """A call has come over it. False: it is one too many, and is not counted."""
        if peer not in self._last_ms and len(self._last_ms) >= most:
            self._forget(now_ms)
            if len(self._last_ms) >= most:
                return False
        self._last_ms[peer] = now_ms
        return True

    def begin(self, peer: str) -> None:
        """A stream of it is open."""
        self._streams[peer] += 1

    def end(self, peer: str, now_ms: int) -> None:
        """It is not any more."""
        self._streams[peer] -= 1
        if not self._streams[peer]:
            del self._streams[peer]
        if peer in self._last_ms:
            self._last_ms[peer] = now_ms

    def is_idle(self, now_ms: int) -> bool:
        """A new one would be the same."""
        self._forget(now_ms)
        return not self._last_ms

    def _forget(self, now_ms: int) -> None:
        since_ms = now_ms - CONNECTION_MS
        kept = {peer: last for peer, last in self._last_ms.items() if last > since_ms or peer in self._streams}
        self._last_ms = kept


class Account:
    """Of one principal."""

    def __init__(self, who: str, quota: Quota, now_ms: int) -> None:
        self.who, self.quota = who, quota
        self.streams = 0
        self.connections = Connections()
        self.refusals = RefusalPace()
        self.buckets = {kind: TokenBucket(rate, now_ms) for kind in RATES if (rate := getattr(quota, kind))}

    def owed(self, now_ms: int) -> tuple[str, int]:
        """The kind of which it owes longest, and for how many milliseconds; 0: it may go on."""
        waits = ((bucket.owed_ms(now_ms), kind) for kind, bucket in self.buckets.items())
        wait_ms, kind = max(waits, default=(0, ""))
        return kind, wait_ms

    def spend(self, spent: Spent, now_ms: int) -> None:
        """It has been let in."""
        for kind, bucket in self.buckets.items():
            if amount := getattr(spent, kind):
                bucket.spend(amount, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        """A new one would be the same."""
        standing = self.streams or not self.connections.is_idle(now_ms) or not self.refusals.is_idle(now_ms)
        return not standing and all(bucket.is_full(now_ms) for bucket in self.buckets.values())


class Quotas:
    """Of one member. `quotas`: by principal, and by EVERYBODY for each that has none of its own."""

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._quotas = quotas
        self._accounts: dict[str, Account] = {}
        self.refused: Counter[str] = Counter(dict.fromkeys(Quota._fields, 0))
        """Calls, streams and units, by the kind that was used up."""
        self.paced: Counter[str] = Counter(dict.fromkeys(RATES, 0))
        """Batches of streams that waited."""

    def account(self, who: str, now_ms: int) -> Account | None:
        """None: it may as much as it wants."""
        found = self._accounts.get(who)
        if found is not None:
            return found
        quota = self._quotas.get(who) or self._quotas.get(EVERYBODY)
        if quota is None:
            return None
        if len(self._accounts) >= ACCOUNTS_MAX:
            self._forget(now_ms)
        made = self._accounts[who] = Account(who, quota, now_ms)
        return made

    def problem_of_call(self, account: Account, now_ms: int) -> Failed | None:
        """Why no call is taken now."""
        kind, wait_ms = account.owed(now_ms)
        if not wait_ms:
            return None
        self.refused[kind] += 1
        return _exceeded(account, kind, f"ask for {getattr(account.quota, kind)} {kind} a second", wait_ms)

    def problem_of_stream(self, account: Account) -> Failed | None:
        """Why no further stream is opened."""
        most = account.quota.streams
        if not most or account.streams < most:
            return None
        return self._no_place(account, "streams", f"have {most} streams open at a time")

    def problem_of_connection(self, account: Account, peer: str, now_ms: int) -> Failed | None:
        """Why no call is taken over it. `peer`: its other end."""
        most = account.quota.connections
        if not most or account.connections.take(peer, most, now_ms):
            return None
        return self._no_place(account, "connections", f"use {most} connections at a time")

    def problem_of_unit(self, account: Account, is_open: int) -> Failed | None:
        """Why no further unit of work is begun. `is_open`: how many are."""
        most = account.quota.units
        if not most or is_open < most:
            return None
        return self._no_place(account, "units", f"have {most} open units of work at a time")

    def _no_place(self, account: Account, kind: str, most: str) -> Failed:
        self.refused[kind] += 1
        return _exceeded(account, kind, most, PLACE_AGAIN_MS)

    def _forget(self, now_ms: int) -> None:
        for who in _idle(self._accounts.values(), now_ms):
            del self._accounts[who]


def _idle(accounts: Iterable[Account], now_ms: int) -> list[str]:
    return [each.who for each in accounts if each.is_idle(now_ms)]


def _exceeded(account: Account, kind: str, most: str, wait_ms: int) -> Failed:
    text = f"{account.who} may {most} at this member (security.quotas); repeat it after {wait_ms} ms"
    limit = str(getattr(account.quota, kind))
    return Failed(Reason.REASON_QUOTA_EXCEEDED, text, {QUOTA: kind, "limit": limit, "principal": account.who}, wait_ms)

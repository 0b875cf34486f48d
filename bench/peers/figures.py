"""The arithmetic of a result: percentiles, spread over runs, when a run is refused and what must be said with it.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

# A load process that uses more of one core than this sets the pace itself: its peer could be faster.
BOUND_BY_LOAD = 0.85
# More than this of a core used by strangers, and times mean little (seen: a sync takes a scheduler's tick longer).
NOISY_CORES = 0.35
# An open loop whose own lateness is more than this share of a percentile, and more than so much, has measured itself.
LATE_SHARE = 0.5
LATE_MS = {"50": 0.5, "99": 3.0}
# Fewer of the messages that were due than this were answered in time: the system does not keep the rate up.
KEPT_UP_SHARE = 0.98
# Of a result, in their order.
PERCENTILES = ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")
# A sync that two messages share is allowed for; that every tenth message has none is not.
SYNCS_SHARE_MIN = 0.95


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed; 0.0 of nothing."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def syncs_short(syncs: Mapping[str, int], messages: int, copies: int) -> str:
    """Why syncs counted by process, with one message in flight at a time, do not bear out so many synced copies; or "".

    A copy is a process of its own, so no process counts for more than one sync a message. A majority may be another one
    for each message: what counts is the sum, not which processes it comes from.
    """
    if copies and messages <= 0:
        return "no message was answered while syncs were counted"
    counted = sum(min(count, messages) for count in syncs.values())
    if len(syncs) < copies:
        return f"{len(syncs)} processes cannot hold {copies} copies"
    if counted < copies * messages * SYNCS_SHARE_MIN:
        each = ", ".join(f"{name} {count}" for name, count in sorted(syncs.items()))
        return f"{counted} syncs for {messages} messages, {copies} copies promised ({each})"
    return ""


def refusals(result: Mapping[str, Any]) -> list[str]:
    """Why a result must not be shown as one; empty when it may. `broke`: what its figures do not tell."""
    found = list(result.get("broke", ()))
    account = result.get("account")
    if not account and result.get("verified"):
        found.append("nobody counted what came")
    if account:
        found += [f"{account[what]:,} messages {what}" for what in ("lost", "corrupt", "unknown") if account[what]]
    found += [f"setting {text}" for text in result.get("settings_wrong", ())]
    if "copies" in result:
        syncs = dict(result.get("syncs") or {})
        why = syncs_short(syncs, syncs.pop("messages"), result["copies"]) if syncs else "nobody counted syncs"
        found += [why] if why else []
    if result.get("messages", 1) <= 0:
        found.append("nothing was answered in the measured time")
    if "slack" in result and result["held"] + result["untold"] + result["slack"] < (left := left_of(result)):
        found.append(f"{left:,} messages are left, the server holds {result['held']:,}")
    return found + (load_was_the_limit(result) if "rate" in result else [])


def left_of(result: Mapping[str, Any]) -> int:
    """Messages that a load tool has sent and not received: the servers must hold as many.

    `untold` are those that it may have received before it ended, `slack` is for tools that report rates in whole
    numbers. More than expected is no loss: what was delivered and not acknowledged comes back, and the last may have
    been stored without an answer.
    """
    return int(result["sent"] - result["received"])


def load_was_the_limit(result: Mapping[str, Any]) -> list[str]:
    """Why the times of an open loop are those of its load, not of the system; empty when they are the system's."""
    share = (result.get("load_share") or {}).get("producer")
    found = ["nobody measured what the load used"] if share is None else []
    if share is not None and share >= BOUND_BY_LOAD:
        found.append(f"the load was the bottleneck: it used {share:.0%} of a core")
    for name, least_ms in LATE_MS.items():
        late_ms, took_ms = result.get(f"late_p{name}_ms"), result.get(f"p{name}_ms")
        if late_ms is None or took_ms is None:
            found.append(f"nobody measured how late p{name} of the load was")
        elif late_ms > max(least_ms, LATE_SHARE * took_ms):
            found.append(f"the load was the bottleneck: p{name} {late_ms:.2f} ms late of {took_ms:.2f} ms")
    return found


def remarks(result: Mapping[str, Any]) -> list[str]:
    """What must be said beside a result."""
    found = []
    load = sorted(result.get("load_share", {}).items())
    found += [f"bound by the {role} ({share:.0%} of a core)" for role, share in load if share >= BOUND_BY_LOAD]
    if "rate" in result and result["value"] < KEPT_UP_SHARE * result["rate"]:
        found.append(f"does not keep up: {result['value']:,.0f} of {result['rate']:,.0f} a second")
    if (unanswered := result.get("unanswered", 0)) < result.get("window", 0):
        mib = unanswered * result["size"] / (1 << 20)
        found.append(f"at most {unanswered:,} unanswered, not {result['window']:,}: {mib:.0f} MiB of payload")
    if (cores := result.get("foreign_cores", 0.0)) > NOISY_CORES:
        found.append(f"noisy: strangers used {cores:.2f} cores")
    if (account := result.get("account")) and account["again"]:
        found.append(f"{account['again']:,} came twice")
    return found


def shares(used: Mapping[str, float], seconds: float, messages: int, roles: Sequence[str]) -> dict[str, Any]:
    """Of processor time used by role in a window: per message, of a core for the load's roles, and of strangers."""
    own = {role: time for role, time in used.items() if role != "machine"}
    servers = sum(time for role, time in own.items() if role not in roles)
    per_message = {role: round(own.get(role, 0.0) / max(1, messages), 3) for role in roles}
    return {
        "cpu_us": {"servers": round(servers / max(1, messages), 3), **per_message},
        "load_share": {role: round(own.get(role, 0.0) / seconds / 1e6, 3) for role in roles},
        "foreign_cores": round(max(0.0, used.get("machine", 0.0) - sum(own.values())) / seconds / 1e6, 3),
    }

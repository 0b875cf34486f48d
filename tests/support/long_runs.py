"""A run as long as one wishes, as it would have been seen: every five seconds the master is killed on a slow link."""

from __future__ import annotations

from chaos.account import Span
from chaos.history import FAIL, OK, UNKNOWN, Acked, Delivered, History, Message, Operation, Seen, Settled, Struck
from chaos.scenario import Result, judged

ROUND_S, LOOK_S = 5.0, 0.05
KILLED_S, SERVED_S, BACK_S = 2.0, 2.6, 4.0  # within a round
SLOW_S = (1.5, 3.0)


def alternating_kills(rounds: int) -> Result:
    """Master and replica by turns; producers wait while there is no master, and an impatient client gives up."""
    history = History()
    struck: list[Struck] = []
    for place in range(rounds):
        from_s, dead, alive = place * ROUND_S, "ab"[place % 2], "ba"[place % 2]
        struck += [Struck("slow", ("a", "b"), from_s + SLOW_S[0], from_s + SLOW_S[1], delay_s=0.1)]
        struck += [Struck("kill", (dead,), from_s + KILLED_S, from_s + BACK_S)]
        _look(history, from_s, place + 1, dead, alive)
        _send(history, from_s, place + 1)
    struck[-1].to_s = float("inf")
    history.operations.sort(key=lambda each: each.at_s)
    spans = [Span(place * ROUND_S + SLOW_S[0], place * ROUND_S + BACK_S) for place in range(rounds)]
    return judged("alternating-kills", 7, rounds * ROUND_S, history, struck, spans, checks=())


def _look(history: History, from_s: float, epoch: int, dead: str, alive: str) -> None:
    for step in range(round(ROUND_S / LOOK_S)):
        within_s = step * LOOK_S
        serves = within_s >= SERVED_S
        roles = {dead: "REPLICA" if serves else "MASTER", alive: "MASTER" if serves else "REPLICA"}
        for name, role in roles.items():
            if name == alive or not KILLED_S <= within_s < BACK_S:
                incarnation = epoch + (name == dead and serves)
                at_s, now = from_s + within_s, epoch + serves
                history.seen.append(Seen(at_s, at_s, name, "disk", incarnation, role, "IN_SYNC", now, 4, "d", "s", 0))


def _send(history: History, from_s: float, epoch: int) -> None:
    for step in range(round(ROUND_S * 10)):
        asked_s = from_s + step / 10
        waits = KILLED_S <= asked_s - from_s < SERVED_S
        for producer in (0, 1):
            message = Message(producer, len(history.acked))
            at_s = max(asked_s + (0.004 if producer else 0.03), from_s + SERVED_S + 0.05 if waits else 0.0)
            index = len(history.acked) + 1
            history.operations.append(Operation(f"producer {producer}", "enqueue", asked_s, at_s, OK, (message,)))
            history.acked.append(Acked(asked_s, at_s, message, index, epoch, 2))
            history.delivered.append(Delivered(at_s + 0.01, message, index, 1))
            history.settled.append(Settled(at_s + 0.02, index))
        outcome = (UNKNOWN if step % 2 else FAIL) if waits else OK
        ended_s = asked_s + (0.09 if waits else 0.01)
        message = Message(2, len(history.acked))
        detail = "" if outcome == OK else "NO_MASTER"
        history.operations.append(Operation("impatient", "enqueue", asked_s, ended_s, outcome, (message,), detail))

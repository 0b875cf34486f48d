"""A program for `tandemq twin run`: adds numbers, and sends each sum."""

from __future__ import annotations

from tandemq.twin import Output, TwinInput


def initial() -> dict[str, int]:
    return {"sum": 0}


def handler(state: dict[str, int], message: TwinInput) -> tuple[dict[str, int], list[Output]]:
    state["sum"] += int(message.payload)
    return state, [Output("sums", b"%d %d" % (message.index, state["sum"]))]

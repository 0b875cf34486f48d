"""A handler that is wrong: it sends words in the order of a set, which differs from process to process."""

from __future__ import annotations

from tandemq.twin import Output, TwinInput


def initial() -> dict[str, int]:
    return {"seen": 0}


def handler(state: dict[str, int], message: TwinInput) -> tuple[dict[str, int], list[Output]]:
    words = set(message.payload.decode().split())
    return {"seen": state["seen"] + 1}, [Output("words", word.encode()) for word in words]

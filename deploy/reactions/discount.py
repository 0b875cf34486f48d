#!/usr/bin/env python3
"""A custom reaction, as a plug-in and as a command: orders that are not taken yet become cheaper.

As many percent as the caller has sent along are taken off property `price`. An order without a price is left alone, one
that costs nothing any more is cancelled, and one above 1,000 goes to the queue `review`.
"""

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tandemq.reacting import Answer, Question

PRICE_MAX = 1_000


def action_for(price: object, percent: int) -> tuple[str, int]:
    """What is done, and the new price."""
    if not isinstance(price, int) or isinstance(price, bool):
        return "LEAVE", 0
    if price > PRICE_MAX:
        return "MOVE", price
    lower = price * (100 - percent) // 100
    return ("UPDATE", lower) if lower > 0 else ("DELETE", 0)


class Discount:
    """The plug-in: entry point `discount` of group `tandemq.reactions`."""

    async def decide(self, question: "Question") -> "Answer":
        """See `tandemq.reacting`."""
        from tandemq.reacting import Cancel, Change, Leave, MoveTo  # which a command does not pay for

        action, price = action_for(question.properties.get("price"), int(question.input.payload))
        match action:
            case "UPDATE":
                return Change(properties={"price": price})
            case "MOVE":
                return MoveTo("review")
            case "DELETE":
                return Cancel()
            case _:
                return Leave()


def main() -> None:
    """The command: one line of JSON in, one out, exit code 0."""
    import base64

    question = json.load(sys.stdin)
    percent = int(base64.b64decode(question["input"]["payload"]))
    action, price = action_for(question["message"]["properties"].get("price"), percent)
    answer = {"id": question["id"], "action": action}
    if action == "UPDATE":
        answer["properties"] = {"price": price}
    if action == "MOVE":
        answer["queue"] = "review"
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()

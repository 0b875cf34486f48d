"""The demo's program, made to differ once: `make demo-twin DIVERGE=1` must find it. It never differs twice."""

from __future__ import annotations

import importlib
from typing import Any

from tandemq.twin import Output, TwinInput

AT = 777
_board = importlib.import_module("board")  # docs/examples/execution_environment, on the path of whoever starts it
initial = _board.initial


def handler(context: Any, message: TwinInput) -> tuple[Any, list[Output]]:
    """As the other one's, but for one message."""
    context, outputs = _board.handler(context, message)
    if message.index == AT:
        outputs = [output._replace(payload=output.payload + b" or so") for output in outputs]
    return context, outputs

"""Two processes that do the same work on the same messages in the same order, so that either may die (docs/TWINS.md).

A handler says what an input comes to; `Twin` does the rest. It decides nothing about the pair.
"""

from __future__ import annotations

from tandemq.twin.codecs import JSON, Codec
from tandemq.twin.faults import (
    DirectoryFault,
    InputMissing,
    OutputsMissing,
    OutputsOfOthers,
    StateInUse,
    StateMissing,
    TwinFault,
    TwinsDiffer,
    TwinVersion,
)
from tandemq.twin.handling import Handler, Output, TwinInput
from tandemq.twin.options import OnDivergence, TwinEnd, TwinOptions
from tandemq.twin.twin import Twin

__all__ = [
    "JSON",
    "Codec",
    "DirectoryFault",
    "Handler",
    "InputMissing",
    "OnDivergence",
    "Output",
    "OutputsMissing",
    "OutputsOfOthers",
    "StateInUse",
    "StateMissing",
    "Twin",
    "TwinEnd",
    "TwinFault",
    "TwinInput",
    "TwinOptions",
    "TwinVersion",
    "TwinsDiffer",
]

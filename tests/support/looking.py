"""Judges a run's page by what a browser drew: every fault that a reader would see, as a sentence; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from tests.support.browser import Shown

FOLD = 700  # the verdict stands above it
LETTERS_MIN, CONTRAST_MIN = 9.0, 4.5
NEAR = 2.0  # places are rounded
Box = list[float]


def faults(shown: Shown) -> list[str]:
    """Empty where there is nothing to mend."""
    return [*without_timeline(shown), *_picture(shown.facts)]


def without_timeline(shown: Shown) -> list[str]:
    """The same of a page that has other pictures, or none."""
    return [*_alone(shown), *_words(shown.facts)]


def _alone(shown: Shown) -> Iterator[str]:
    yield from (f"the console has {line!r}" for line in shown.console)
    yield from (f"it asks for {url}" for url in shown.requests)


def _words(facts: dict[str, Any]) -> Iterator[str]:
    if facts["pageWidth"] > facts["width"]:
        yield f"it is {facts['pageWidth']} wide in a window of {facts['width']}"
    verdict = facts["verdict"]
    if verdict is None or not verdict["text"]:
        yield "no verdict is to be seen"
    elif verdict["box"][3] > FOLD:
        yield f"the verdict begins at {verdict['box'][1]:.0f}, below the fold"
    for each in [*facts["words"], *(text for picture in facts["pictures"] for text in picture["texts"])]:
        if each["size"] < LETTERS_MIN:
            yield f"{each['text']!r} has letters of {each['size']:.1f}"
        if each["text"] and (ratio := contrast(each["ink"], each["ground"])) < CONTRAST_MIN:
            yield f"{each['text']!r} has a contrast of {ratio:.1f}"


def _picture(facts: dict[str, Any]) -> Iterator[str]:
    if len(facts["pictures"]) != 1:
        yield f"{len(facts['pictures'])} timelines are to be seen"
        return
    [picture] = facts["pictures"]
    for text in picture["texts"]:
        if not _inside(text["box"], picture["box"]):
            yield f"{text['text']!r} is cut off"
    for one, other in combinations(picture["texts"], 2):
        if _overlap(one["box"], other["box"]):
            yield f"{one['text']!r} and {other['text']!r} overlap"
    kinds = [lane["kind"] for lane in picture["lanes"]]
    for kind, least in (("member", 2), ("fault", 1), ("client", 1)):
        if kinds.count(kind) < least:
            yield f"{kinds.count(kind)} lanes of the kind {kind}"
    yield from (f"lane {lane['name']} is empty" for lane in picture["lanes"] if not lane["bars"])
    struck = [bar for lane in picture["lanes"] if lane["kind"] == "fault" for bar in lane["bars"]]
    for bar in struck:
        if not any(
            abs(bar["box"][0] - band[0]) < NEAR and abs(bar["box"][2] - band[2]) < NEAR for band in bands(picture)
        ):
            yield f"no band for {bar['title']!r}"
    for name in ("rate", "median", "longest"):
        if not picture[name]:
            yield f"no {name} is drawn"
    if picture["rate"] and picture["rate"][0][3] - picture["rate"][0][1] < NEAR:
        yield "the rate is flat"


def bands(picture: dict[str, Any]) -> list[Box]:
    """Those that reach down to the charts: to the middle of the lowest point, which may lie on the axis."""
    lowest = max(((box[1] + box[3]) / 2 for box in picture["median"]), default=0.0) - NEAR
    return [band for band in picture["bands"] if band[3] >= lowest]


def seconds(facts: dict[str, Any]) -> tuple[float, float]:
    """Where second 0 is, and how wide a second is, by the numbers below the picture."""
    [picture] = facts["pictures"]
    ticks = [each for each in picture["texts"] if "second" in each["kind"].split()]
    places = [(float(each["text"].removesuffix(" s")), (each["box"][0] + each["box"][2]) / 2) for each in ticks]
    (first_s, first), (last_s, last) = places[0], places[-1]
    second = (last - first) / (last_s - first_s)
    return first - first_s * second, second


def contrast(ink: str, ground: str) -> float:
    """By the formula of the Web Content Accessibility Guidelines."""
    lighter, darker = sorted((_light(ink), _light(ground)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _light(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _inside(inner: Box, outer: Box) -> bool:
    return all(a >= b - 1 for a, b in zip(inner[:2], outer[:2], strict=True)) and all(
        a <= b + 1 for a, b in zip(inner[2:], outer[2:], strict=True)
    )


def _overlap(one: Box, other: Box) -> bool:
    return min(one[2], other[2]) - max(one[0], other[0]) > 1 and min(one[3], other[3]) - max(one[1], other[1]) > 1

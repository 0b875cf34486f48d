"""Decides what the options of format("tandemq") mean, and which are refused. Pure: it asks nobody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tandemq.client.journal import JournalKind
from tandemq.errors import InvalidRequest

PARTITIONS, PARTITIONS_MAX = 4, 10_000
MAX_INDEX = (1 << 63) - 1
TIMEOUT_S_MAX = 3_600
QUEUES_MAX = 1_000
"""As JournalSelection has it."""
FROM = ("earliest", "latest")
_PLACE = re.compile(r"([0-9]+)(?::([0-9]+)(?::([0-9a-f]{32}))?)?")
_HISTORY_ID = re.compile(r"[0-9a-f]{32}")

BATCH_ONLY = ("startLogIndex", "endLogIndex", "startIndex", "endIndex", "historyId")
STREAM_ONLY = ("startingPosition", "maxRowsPerTrigger", "reader")
ALWAYS = (
    *("target", "queues", "domain", "kinds", "payloads", "attributes", "partitions", "timeoutSeconds", "thisMember"),
    "everyRecord",
)
NAMES = (*ALWAYS, *BATCH_ONLY, *STREAM_ONLY)


@dataclass(frozen=True, slots=True)
class Options:
    """What one read wants. Plain values: it travels to the executors."""

    target: str | None = None
    """As tandemq.connect takes it; None: found out where the read is planned."""
    queues: tuple[str, ...] = ()
    """Empty: all of the domain, and rows that name no queue."""
    domain: str = ""
    """Empty: that of the queues, else main."""
    kinds: tuple[JournalKind, ...] = ()
    """Empty: all."""
    payloads: bool = True
    start_log_index: int = 0
    """0: the first that is kept."""
    end_log_index: int = 0
    """End before this record. 0: at the commit index."""
    start_index: int = 0
    """Of the only queue; 0: not given."""
    end_index: int = 0
    """End before this message of the only queue. 0: not given."""
    partitions: int = PARTITIONS
    """At most so many; none is smaller than a record."""
    starting_position: str = "earliest"
    """Of a new streaming query: a word of FROM, or a log index."""
    starting_epoch: int = 0
    """Of the record before that log index; another one there is refused. 0: not given."""
    starting_history_id: str = ""
    """Of the journal, of a batch read too; another one is refused. Empty: not given."""
    max_rows: int = 0
    """Of a micro-batch, rounded up to the end of a record; 0: all that there is."""
    timeout_s: int = 60
    """How long one call may wait, over a takeover for example."""
    reader: str = ""
    """Name under which the pair keeps what a streaming query has not committed; empty: it keeps nothing for it."""
    this_member: bool = False
    """The copy of the first endpoint alone, whatever its role: what an audit compares."""
    attributes: bool = False
    """What stands beside a body has columns too."""
    every_record: bool = False
    """A row of records that did nothing to a queue or a message, too: what is missing can be told from them."""


def parse(given: Mapping[str, str], *, streaming: bool) -> Options:
    """Read what was given. Raises InvalidRequest with reason BAD_OPTION, which names the option."""
    spelling = {name.lower(): name for name in NAMES}
    values = {}
    for key, value in given.items():
        name = spelling.get(key.lower())
        if name is None:
            raise bad_option(key, value, f"there is no such option; there are {', '.join(NAMES)}")
        values[name] = value
    for name in BATCH_ONLY if streaming else STREAM_ONLY:
        if name in values:
            kind = "readStream" if streaming else "read"
            raise bad_option(name, values[name], f"{kind} does not take it")
    queues = _words(values.get("queues", ""))
    if len(queues) > QUEUES_MAX:
        raise bad_option("queues", f"{queues[0]},...", f"{len(queues)} queues; at most {QUEUES_MAX} can be named")
    position, epoch, history_id = _position(values.get("startingPosition", "earliest"))
    options = Options(
        target=values.get("target"),
        queues=queues,
        domain=values.get("domain", ""),
        kinds=tuple(_kind(word, values["kinds"]) for word in _words(values.get("kinds", ""))),
        payloads=_truth("payloads", values.get("payloads", "true")),
        start_log_index=number_of(values, "startLogIndex", 0, 1, MAX_INDEX),
        end_log_index=number_of(values, "endLogIndex", 0, 1, MAX_INDEX),
        start_index=number_of(values, "startIndex", 0, 1, MAX_INDEX),
        end_index=number_of(values, "endIndex", 0, 1, MAX_INDEX),
        partitions=number_of(values, "partitions", PARTITIONS, 1, PARTITIONS_MAX),
        starting_position=position,
        starting_epoch=epoch,
        starting_history_id=history_id if streaming else history_id_of(values),
        max_rows=number_of(values, "maxRowsPerTrigger", 0, 1, MAX_INDEX),
        timeout_s=number_of(values, "timeoutSeconds", 60, 1, TIMEOUT_S_MAX),
        reader=_name(values),
        this_member=_truth("thisMember", values.get("thisMember", "false")),
        attributes=wants_attributes(values),
        every_record=_truth("everyRecord", values.get("everyRecord", "false")),
    )
    _check_range(values, options)
    return options


def wants_attributes(given: Mapping[str, str]) -> bool:
    """Which columns a read has. Raises InvalidRequest with reason BAD_OPTION."""
    found = [value for key, value in given.items() if key.lower() == "attributes"]
    return _truth("attributes", found[-1]) if found else False


def bad_option(name: str, value: str, why: str) -> InvalidRequest:
    """The refusal of one option."""
    return InvalidRequest("BAD_OPTION", f"option {name} = {value!r}: {why}", {"option": name}, definite=True)


def _check_range(values: Mapping[str, str], options: Options) -> None:
    for name in ("startIndex", "endIndex"):
        if name in values and len(options.queues) != 1:
            text = f"an index is one queue's, and {len(options.queues)} are named; name one in queues"
            raise bad_option(name, values[name], text)
    for first, second in (("startIndex", "startLogIndex"), ("endIndex", "endLogIndex")):
        if first in values and second in values:
            raise bad_option(first, values[first], f"{second} says it too; give one of them")
    for start, end, low, high in (
        ("startLogIndex", "endLogIndex", options.start_log_index, options.end_log_index),
        ("startIndex", "endIndex", options.start_index, options.end_index),
    ):
        if low and high and high < low:
            raise bad_option(end, values[end], f"it is before {start} = {low}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for part in text.split(",") if (word := part.strip())))


def _kind(word: str, given: str) -> JournalKind:
    try:
        return JournalKind[word.upper()]
    except KeyError:
        names = ", ".join(kind.name.lower() for kind in JournalKind)
        raise bad_option("kinds", given, f"there is no kind {word!r}; there are {names}") from None


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise bad_option(name, text, "it is true or false")
    return text.lower() == "true"


def number_of(values: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    """A whole number among the options. Raises InvalidRequest with reason BAD_OPTION."""
    if name not in values:
        return default
    text = values[name]
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and low <= int(text) <= high):
        raise bad_option(name, text, f"it is a whole number from {low} to {high}")
    return int(text)


def history_id_of(values: Mapping[str, str]) -> str:
    """The option historyId. Raises InvalidRequest with reason BAD_OPTION."""
    text = values.get("historyId", "").lower()
    if text and not _HISTORY_ID.fullmatch(text):
        raise bad_option(
            "historyId",
            values["historyId"],
            "it is 32 hexadecimal digits, as `tandemq queue journal QUEUE --head` tells them",
        )
    return text


def _name(values: Mapping[str, str]) -> str:
    name = values.get("reader", "").strip()
    if "reader" in values and not name:
        raise bad_option("reader", values["reader"], "give it a name, or leave it out")
    return name


def _position(text: str) -> tuple[str, int, str]:
    """A word, or a log index with the epoch of the record before it and the history's id, as the command line writes
    places.
    """
    if text.lower() in FROM:
        return text.lower(), 0, ""
    found = _PLACE.fullmatch(text)
    if found is None:
        told = f"it is {', '.join(FROM)} or a log index, alone or with the epoch before it and the history's id: 120:3"
        raise bad_option("startingPosition", text, told)
    name = "startingPosition"
    numbers = [number_of({name: part}, name, 0, 1, MAX_INDEX) for part in found.group(1, 2) if part]
    return str(numbers[0]), numbers[1] if found[2] else 0, found[3] or ""

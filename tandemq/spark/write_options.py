"""Decides what the options of a write to format("tandemq") mean, and which frames can be written. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tandemq.spark.options import MAX_INDEX, TIMEOUT_S_MAX, bad_option, history_id_of, number_of

STAGE_S, STAGE_S_MAX = 6 * 3_600, 24 * 3_600
"""How long staged rows are kept from their last part on: the whole of a job, or of a micro-batch."""
NAME_BYTES_MAX = 255

ALWAYS = ("target", "queue", "domain", "writer", "queryId", "historyId", "stageSeconds", "timeoutSeconds")
BATCH_ONLY = ("batchId",)
NAMES = (*ALWAYS, *BATCH_ONLY)
TEXTS = ("content_type", "correlation_id", "group_id", "reply_to")
PROPERTIES = "map<string,struct<text:string,integer:bigint,number:double,flag:boolean,data:binary>>"
"""As a read with attributes gives them: one of the five is set."""
COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "payload": ("binary", "string"),
        "queue": ("string",),
        "priority": ("int", "bigint", "smallint", "tinyint"),
        **dict.fromkeys(TEXTS, ("string",)),
        "persistent": ("boolean",),
        "ttl_ms": ("bigint", "int"),
        "delay_ms": ("bigint", "int"),
        "deliver_at": ("timestamp",),
        "properties": (PROPERTIES, "map<string,string>"),
    }
)
"""What a frame may have, with the types that each may be of."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What one write wants. Plain values: it travels to the executors."""

    target: str | None = None
    """As tandemq.connect takes it; None: found out where the write is planned."""
    queue: str = ""
    """Empty: the column of that name says it."""
    domain: str = ""
    """Empty: main."""
    writer: str = ""
    """Empty: a batch write that is not to be recognised when it is repeated."""
    query_id: str = ""
    """Empty: of a stream Spark's own; of a batch write QUERY_ID."""
    batch_id: int = 0
    stage_s: int = STAGE_S
    timeout_s: int = 60
    """How long one call may wait, over a takeover for example."""
    history_id: str = ""
    """Of the history that is meant; empty: that beside a stream's checkpoint, of a batch write any."""
    checkpoint: str = ""
    """Of a stream, where it is an option of the query."""


QUERY_ID = "batch"


def parse(given: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Read what was given. Raises InvalidRequest with reason BAD_OPTION, which names the option."""
    spelling = {name.lower(): name for name in NAMES}
    values, checkpoint = {}, ""
    for key, value in given.items():
        if key.lower() == "checkpointlocation":  # Spark's own
            checkpoint = value
            continue
        name = spelling.get(key.lower())
        if name is None:
            raise bad_option(key, value, f"there is no such option of a write; there are {', '.join(NAMES)}")
        values[name] = value
    for name in ("writer", "queryId"):
        if len(values.get(name, "").encode()) > NAME_BYTES_MAX:
            raise bad_option(name, f"{values[name][:32]}...", f"it may have {NAME_BYTES_MAX} bytes")
    writer, batch_id = values.get("writer", ""), values.get("batchId")
    if streaming and not writer:
        raise bad_option("writer", "", "writeStream needs it: a name for this query that stays the same over restarts")
    if streaming and batch_id is not None:
        raise bad_option("batchId", batch_id, "writeStream does not take it: Spark numbers the batches")
    if not streaming and bool(writer) is not (batch_id is not None):
        text = "a batch write has both, so that its repetition is recognised, or neither"
        raise bad_option("writer" if writer else "batchId", writer or batch_id or "", text)
    return WriteOptions(
        target=values.get("target"),
        queue=values.get("queue", ""),
        domain=values.get("domain", ""),
        writer=writer,
        query_id=values.get("queryId", "" if streaming else QUERY_ID),
        batch_id=number_of(values, "batchId", 0, 0, MAX_INDEX),
        stage_s=number_of(values, "stageSeconds", STAGE_S, 1, STAGE_S_MAX),
        timeout_s=number_of(values, "timeoutSeconds", 60, 1, TIMEOUT_S_MAX),
        history_id=history_id_of(values),
        checkpoint=checkpoint if streaming else "",
    )


def check_columns(columns: Sequence[tuple[str, str]], options: WriteOptions) -> None:
    """Names and types of a frame. Raises InvalidRequest with reason BAD_OPTION, which names the column."""
    found = dict(columns)
    for name, kind in columns:
        if name not in COLUMNS:
            text = f"there is no such column of a message; leave it out: select() some of {', '.join(COLUMNS)}"
            raise bad_option(f"column {name}", kind, text)
        if kind not in COLUMNS[name]:
            raise bad_option(f"column {name}", kind, f"it must be of type {' or '.join(COLUMNS[name])}")
    if "payload" not in found:
        raise bad_option("column payload", "", "the frame has none; name the column that holds the message's body so")
    if "queue" not in found and not options.queue:
        raise bad_option("queue", "", "say to which queue: by this option, or by a column of that name")

"""Decides what the options of format("tandemq-consume") mean, and which are refused. Pure: it asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tandemq.spark.options import PARTITIONS, PARTITIONS_MAX, TIMEOUT_S_MAX, bad_option, number_of

ROWS, ROWS_MAX = 1_000, 10_000
BYTES, BYTES_MAX = 16 << 20, 64 << 20
LEASE_S, LEASE_S_MAX = 600, 12 * 3_600
"""As BatchService has them."""
NAMES = (
    *("target", "queue", "consumer", "maxRowsPerTrigger", "maxBytesPerTrigger", "leaseSeconds"),
    *("partitions", "timeoutSeconds"),
)
NEEDED = ("queue", "consumer")


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """What one query consumes. Plain values: it travels to the executors."""

    queue: str
    consumer: str
    """Name under which the batches are numbered: one query's."""
    target: str | None = None
    """As tandemq.connect takes it; None: found out where the query is planned."""
    max_rows: int = ROWS
    max_bytes: int = BYTES
    lease_s: int = LEASE_S
    """How long a micro-batch outlives its query before its messages are delivered again."""
    partitions: int = PARTITIONS
    timeout_s: int = 60
    """How long one call may wait, over a takeover for example."""


def parse(given: Mapping[str, str]) -> ConsumeOptions:
    """Read what was given. Raises InvalidRequest with reason BAD_OPTION, which names the option."""
    spelling = {name.lower(): name for name in NAMES}
    values = {}
    for key, value in given.items():
        name = spelling.get(key.lower())
        if name is None:
            raise bad_option(key, value, f"there is no such option; there are {', '.join(NAMES)}")
        values[name] = value.strip() if name in NEEDED else value
    for name in NEEDED:
        if not values.get(name):
            raise bad_option(name, "", "it is needed: the queue, and a name of this query that stays over its restarts")
    return ConsumeOptions(
        queue=values["queue"],
        consumer=values["consumer"],
        target=values.get("target"),
        max_rows=number_of(values, "maxRowsPerTrigger", ROWS, 1, ROWS_MAX),
        max_bytes=number_of(values, "maxBytesPerTrigger", BYTES, 1, BYTES_MAX),
        lease_s=number_of(values, "leaseSeconds", LEASE_S, 1, LEASE_S_MAX),
        partitions=number_of(values, "partitions", PARTITIONS, 1, PARTITIONS_MAX),
        timeout_s=number_of(values, "timeoutSeconds", 60, 1, TIMEOUT_S_MAX),
    )

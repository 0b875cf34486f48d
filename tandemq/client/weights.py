"""Tables of routing weights: published, read and deleted. It routes nothing: see `WeightTable.shares`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tandemq.client.calls import WEIGHTS_SERVICE
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked
from tandemq.v1 import weights_service_pb2 as pb


class WeightTable(NamedTuple):
    """A table as the pair answered it. What a router that goes by it must do:

    - take `shares` of its own queues, when it is answered or later, by its own clock plus `valid_for`;
    - where they are None (expired, or of none of its queues), and where there is no table (WEIGHTS_NOT_FOUND) or no
      answer, go by its own live counters;
    - change the share of a queue in small steps only, at most a fifth of all messages at once: a wrong table must not
      move all messages at once.

    A macro queue of the table's name does so (docs/MACRO.md); else the pair moves no message by a table.
    """

    name: str
    version: int
    """Rises with each publication in the domain, of whatever table, and is never used again."""
    weights: dict[str, float]
    """By queue; queues that were deleted since are left out. Empty in a list of tables."""
    valid_until: datetime
    valid_for: timedelta
    """How much longer that is, at the moment of the answer, by the clock of the pair."""
    expired: bool
    published_by: str
    published_at: datetime
    computed_from: datetime | None = None
    computed_until: datetime | None = None

    def shares(self, queues: Collection[str]) -> dict[str, float] | None:
        """What each of these queues should get, together 1; one without a weight gets 0. None: do not go by it."""
        found = {queue: self.weights.get(queue, 0.0) for queue in queues}
        total = sum(found.values())
        if self.expired or not total:
            return None
        return {queue: weight / total for queue, weight in found.items()}


class PublishedWeights(NamedTuple):
    """What a publication led to."""

    version: int
    valid_until: datetime


async def publish_weights(
    client: Linked,
    name: str,
    weights: Mapping[str, float],
    *,
    valid_until: datetime | None = None,
    valid_for: timedelta | None = None,
    expected_version: int | None = None,
    published_by: str = "",
    computed_from: datetime | None = None,
    computed_until: datetime | None = None,
    domain: str = "",
) -> PublishedWeights:
    """Puts a table in the place of the one of that name, whole. It is on every copy that must have it.

    weights: by queue or alias, finite, 0 to 1,000,000, at most 1,000, not all 0.
    valid_until, or valid_for from now on: one of them, at most 7 days ahead.
    expected_version: the version that it is to replace; 0: there must be none; None: whatever is there.
    Raises Refused with reason VERSION_MISMATCH when another version is there (metadata `version`), InvalidRequest
    with reason BAD_WEIGHTS for what nobody could route by, NotFound with reason QUEUE_NOT_FOUND for a queue that is
    not in the domain. A call that is in doubt is repeated by the client, and has one effect.
    """
    if (valid_until is None) == (valid_for is None):
        raise ValueError("give valid_until or valid_for: a table without an end would be routed by for ever")
    request = pb.PublishWeightsRequest(
        request_id=new_request_id(),
        domain=domain,
        name=name,
        weights=[pb.QueueWeight(queue=queue, weight=weight) for queue, weight in weights.items()],
        expected_version=expected_version,
        published_by=published_by,
    )
    if valid_for is not None:
        request.valid_for.FromTimedelta(valid_for)
    for field, time in (
        (request.valid_until, valid_until),
        (request.computed_from, computed_from),
        (request.computed_until, computed_until),
    ):
        if time is not None:
            field.FromDatetime(time)
    path = WEIGHTS_SERVICE + "PublishWeights"
    done = await client.links.own.caller.call(path, request, pb.PublishWeightsResponse)
    return PublishedWeights(done.version, done.valid_until.ToDatetime(UTC))


async def get_weights(client: Linked, name: str, *, domain: str = "") -> WeightTable:
    """The table of that name, expired or not. Raises NotFound with reason WEIGHTS_NOT_FOUND."""
    request = pb.GetWeightsRequest(domain=domain, name=name)
    path = WEIGHTS_SERVICE + "GetWeights"
    return _table((await client.links.own.caller.call(path, request, pb.GetWeightsResponse)).table)


async def list_weights(client: Linked, domain: str = "") -> list[WeightTable]:
    """All tables of a domain, by name, expired ones too; without their weights."""
    request = pb.ListWeightsRequest(domain=domain)
    path = WEIGHTS_SERVICE + "ListWeights"
    found = await client.links.own.caller.call(path, request, pb.ListWeightsResponse)
    return [_table(each) for each in found.tables]


async def delete_weights(client: Linked, name: str, *, expected_version: int | None = None, domain: str = "") -> None:
    """Removes a table: who routes by it goes by live counters. Raises NotFound with reason WEIGHTS_NOT_FOUND, and
    Refused with reason VERSION_MISMATCH when it has another version.
    """
    request = pb.DeleteWeightsRequest(
        request_id=new_request_id(), domain=domain, name=name, expected_version=expected_version
    )
    await client.links.own.caller.call(WEIGHTS_SERVICE + "DeleteWeights", request, pb.DeleteWeightsResponse)


def _table(table: pb.WeightTable) -> WeightTable:
    return WeightTable(
        table.name,
        table.version,
        {each.queue: each.weight for each in table.weights},
        table.valid_until.ToDatetime(UTC),
        table.valid_for.ToTimedelta(),
        table.expired,
        table.published_by,
        table.published_at.ToDatetime(UTC),
        table.computed_from.ToDatetime(UTC) if table.HasField("computed_from") else None,
        table.computed_until.ToDatetime(UTC) if table.HasField("computed_until") else None,
    )

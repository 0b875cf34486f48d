"""The blocking form of the calls about tables of routing weights; see `weights`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tandemq.client import aio
from tandemq.client.loop_thread import LoopThread
from tandemq.client.weights import PublishedWeights, WeightTable


class Weighing:
    """Part of the blocking client."""

    _inner: aio.Client
    _thread: LoopThread

    def publish_weights(
        self,
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
        """Puts a table in the place of the one of that name; see aio.Client.publish_weights."""
        made = self._inner.publish_weights(
            name,
            weights,
            valid_until=valid_until,
            valid_for=valid_for,
            expected_version=expected_version,
            published_by=published_by,
            computed_from=computed_from,
            computed_until=computed_until,
            domain=domain,
        )
        return self._thread.run(made)

    def get_weights(self, name: str, *, domain: str = "") -> WeightTable:
        """The table of that name, expired or not; see aio.Client.get_weights."""
        return self._thread.run(self._inner.get_weights(name, domain=domain))

    def list_weights(self, domain: str = "") -> list[WeightTable]:
        """All tables of a domain, without their weights; see aio.Client.list_weights."""
        return self._thread.run(self._inner.list_weights(domain))

    def delete_weights(self, name: str, *, expected_version: int | None = None, domain: str = "") -> None:
        """Removes a table; see aio.Client.delete_weights."""
        self._thread.run(self._inner.delete_weights(name, expected_version=expected_version, domain=domain))

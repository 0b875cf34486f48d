"""Opens connections of a client in a manager's process: to that manager without a network, to others as given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc.aio

from tandemq.channels import Open, Options, Renewed


def inside_opener(inside: str, direct: grpc.aio.Channel, outside: Open) -> Open:
    """`direct` for the name `inside`; every other endpoint is opened by `outside`, and renewed as it says."""
    if isinstance(outside, Renewed):
        return _Renewed(inside, direct, outside)

    def opened(endpoint: str, options: Options) -> grpc.aio.Channel:
        return direct if endpoint == inside else outside(endpoint, options)

    return opened


class _Renewed(Renewed):
    def __init__(self, inside: str, direct: grpc.aio.Channel, outside: Renewed) -> None:
        self._inside, self._direct, self._outside = inside, direct, outside

    @property
    def generation(self) -> int:
        return self._outside.generation

    @property
    def directory(self) -> str:
        return self._outside.directory

    def __call__(self, endpoint: str, options: Iterable[tuple[str, Any]] = ()) -> grpc.aio.Channel:
        return self._direct if endpoint == self._inside else self._outside(endpoint, options)

"""Puts PairService together from the modules that answer its calls; answers none itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from replica.service_failures import generic_handler

if TYPE_CHECKING:
    from collections.abc import Mapping

    Method = grpc.RpcMethodHandler[bytes, bytes]

PAIR_SERVICE = "tandemq.v1.PairService"


def pair_handler(*parts: Mapping[str, Method]) -> grpc.GenericRpcHandler:
    """One handler over the methods of all parts. What no part has is UNIMPLEMENTED; two parts never share a method."""
    methods: dict[str, Method] = {}
    for part in parts:
        assert not methods.keys() & part.keys(), f"answered twice: {sorted(methods.keys() & part.keys())}"
        methods.update(part)
    return generic_handler(PAIR_SERVICE, methods)

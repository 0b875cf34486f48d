"""A domain over a store, wired as the manager does it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from replica.core.domain import Domain
from replica.core.ports import Settings, ports_of
from replica.peer.session import held_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.state.shared import Shared
    from storage.store import Store


def domain_over(store: Store, shared: Shared, is_at_hand: Callable[[int], bool] | None = None) -> Domain:
    ports = ports_of(store, shared, partial(held_call, member=shared.peer), is_at_hand)
    return Domain(shared, ports, Settings(bias_ms=0))

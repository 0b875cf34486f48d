"""How a lease id says that another manager holds the lease, for a macro queue with members there. Decides nothing."""

from __future__ import annotations

FAR_LEASE = 1 << 63
"""Set in the lease id of such a delivery. Those of this manager are an epoch of 23 bits and a log index of 40."""


def is_far(lease_id: int) -> bool:
    """Whether it is none of the manager that delivered it."""
    return bool(lease_id & FAR_LEASE)


def far_lease(lease_id: int) -> int:
    """As it is delivered here; `lease_id`: as the other manager has it."""
    return lease_id | FAR_LEASE


def lease_there(lease_id: int) -> int:
    """As the other manager has it."""
    return lease_id & ~FAR_LEASE

"""Says by what the queue machines of a manager are bounded, as its configuration has it; looks at no queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine.state.kept_quotas import KeptQuota, KeptQuotas
from replica.machine.state.profiles import limits_of
from replica.node.members import LOCAL
from tandemq.config_quotas import EVERYBODY, quotas_of
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

if TYPE_CHECKING:
    from replica.machine import Limits
    from tandemq.config import ManagerConfig


def kept_quotas(config: ManagerConfig) -> KeptQuotas:
    """What principals may keep, of `security.quotas`."""
    found = {
        who: KeptQuota(quota.queues, quota.stored, quota.identities)
        for who, quota in quotas_of(config.security.quotas).items()
    }
    everybody = found.pop(EVERYBODY, None)
    return KeptQuotas(found, everybody)


def limits_for(config: ManagerConfig, domain: str, quotas: KeptQuotas) -> Limits:
    """Of the machine of one domain."""
    unreplicated = domain == LOCAL or not config.pair
    return limits_of(
        config.profile,
        replication=admin_pb2.REPLICATION_NONE if unreplicated else admin_pb2.REPLICATION_FULL,
        domain_name=domain,
        batch_bytes_max=config.limits.max_batch_bytes,
        kept_quotas=quotas,
    )

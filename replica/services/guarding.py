"""Puts a guard, and the log of what it refuses, before the services of a manager that has certificates; and what takes
tokens before those.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from replica.node.quotas import Quotas
from replica.services.guard import Guard
from replica.services.quoted import Quoted
from tandemq.config_quotas import quotas_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.node.access import Access
    from replica.node.members import Members
    from replica.operations.audit import AuditLog
    from replica.operations.operator import Operator
    from replica.services.bearer import BearerDoor
    from tandemq.config import ManagerConfig


def guarded(
    config: ManagerConfig,
    members: Members,
    access: Access,
    operator: Operator,
    handlers: Sequence[Any],
) -> Sequence[Any]:
    """The same services, for whoever calls over a network."""
    if not config.security.credentials:
        return handlers
    operator.audit = _audit_of(config)
    guard = Guard(members, access, operator.audit)
    if config.security.quotas:
        operator.quotas = quotas = Quotas(quotas_of(config.security.quotas))
        guard.quoted = Quoted(access, quotas)
    members.access, access.asker = access, guard
    members.node.on_tick.append(guard.look)
    if operator.audit is not None:
        members.node.on_tick.append(operator.audit.look)
    return [guard.guarded(each) for each in handlers]


def door_of(config: ManagerConfig, members: Members, operator: Operator) -> BearerDoor | None:
    """What stands before the port for tokens; None: there is none. Raises ConfigError for keys of no use."""
    if not config.listen_bearer:
        return None
    from replica.services.bearer import BearerDoor  # nobody without tokens has the library
    from replica.tokens.believed_keys import BelievedKeys
    from replica.tokens.judging import Rules

    tokens = config.tokens
    operator.token_keys = keys = BelievedKeys(tokens, operator.reports.note, members.node.spawn)
    members.node.on_tick.append(keys.look)
    return BearerDoor(keys, Rules(tokens.issuer, tokens.audience, tokens.leeway_seconds), operator.audit)


def _audit_of(config: ManagerConfig) -> AuditLog | None:
    security = config.security
    if not security.audit_bytes:
        return None
    from replica.operations.audit import AuditLog  # nobody without certificates has one

    return AuditLog(
        Path(config.data_dir),
        config.member,
        bytes_max=security.audit_bytes,
        refusals_max=security.audit_refusals,
    )

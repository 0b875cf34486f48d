"""Every attribute of a queue by itself: who says what it is, what a change of it changes, and where it is fixed."""

from __future__ import annotations

from typing import Any

import pytest

from replica.machine import Limits, Refused
from replica.machine.state.config import (
    FROZEN,
    MUTABLE,
    dead_letter_name,
    milliseconds,
    opened,
    resolve,
    updated,
)
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2

LIMITS = Limits()
# A value, and another one, of each; neither is the default.
VALUES: dict[str, tuple[Any, Any]] = {
    "persistence": (admin_pb2.PERSISTENCE_VOLATILE, admin_pb2.PERSISTENCE_CONDITIONAL),
    "max_length": (5, 6),
    "max_bytes": (8 << 20, 9 << 20),
    "max_message_bytes": (5, 6),
    "lease_duration": ({"seconds": 5}, {"seconds": 6}),
    "max_deliveries": (5, 0),
    "dead_letter_queue": ("graves", ""),
    "enqueue_enabled": (False, False),
    "dequeue_enabled": (False, False),
    "require_two": (True, True),
    "annotation": ("one", "two"),
    "default_ttl": ({"seconds": 5}, {"seconds": 6}),
    "queue_type": (admin_pb2.QUEUE_TYPE_ONE_WAY_ACK, admin_pb2.QUEUE_TYPE_TWO_WAY),
    "overflow": (admin_pb2.OVERFLOW_DROP_HEAD, admin_pb2.OVERFLOW_DROP_HEAD),
    "empty_idle_expiry": ({"seconds": 5}, {"seconds": 6}),
    "labels": ({"one": "1"}, {"two": "2"}),
    "default_settle": (service_pb2.SETTLE_MODE_IMMEDIATE, service_pb2.SETTLE_MODE_IMMEDIATE),
    "retry_delay_min": ({"seconds": 5}, {"seconds": 6}),
    "retry_delay_max": ({"seconds": 5}, {"seconds": 6}),
    "reply_timeout": ({"seconds": 5}, {"seconds": 6}),
    "completion_retention": ({"seconds": 5}, {"seconds": 6}),
    "dedup_window": ({"seconds": 5}, {"seconds": 6}),
    "dedup_max": (5, 6),
    "group_mode": (admin_pb2.GROUP_MODE_ORDERED, admin_pb2.GROUP_MODE_ORDERED),
    "max_consumers": (5, 6),
    "single_active": (True, True),
    "remote_clients_allowed": (False, False),
    "address": ("one:1", "two:2"),
    "reactions_enabled": (True, True),
    "xmit_batch": (7, 7),
    "xmit_linger": ({"seconds": 5}, {"seconds": 6}),
    "group_timeout": ({"seconds": 5}, {"seconds": 6}),
    "max_sticky_ttl": ({"seconds": 5}, {"seconds": 6}),
    "owner": ("principal/one", "principal/two"),
}
# These go with another one, and are shown below.
PAIRED = {"enqueue_enabled_at", "dequeue_enabled_at"}
each_attribute = pytest.mark.parametrize("name", VALUES)


def config_of(**attributes: Any) -> admin_pb2.QueueConfig:
    return admin_pb2.QueueConfig(**attributes)


def told(config: admin_pb2.QueueConfig) -> dict[str, Any]:
    """Each attribute that is set."""
    return {field.name: value if isinstance(value, (int, str)) else str(value) for field, value in config.ListFields()}


def changes(before: admin_pb2.QueueConfig, after: admin_pb2.QueueConfig) -> set[str]:
    one, other = told(before), told(after)
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def is_value(config: admin_pb2.QueueConfig, name: str, value: Any) -> bool:
    return bool(getattr(config, name) == getattr(config_of(**{name: value}), name))


def test_every_attribute_is_here() -> None:
    assert set(VALUES) | PAIRED == set(MUTABLE)


@each_attribute
def test_its_creator_says_what_it_is_and_nothing_else_with_it(name: str) -> None:
    for value in VALUES[name]:
        config = resolve(config_of(**{name: value}), LIMITS)
        assert is_value(config, name, value)
        assert changes(resolve(None, LIMITS), config) == {name}


@each_attribute
def test_what_nobody_says_is_as_the_managers_defaults_are(name: str) -> None:
    value, another = VALUES[name]
    defaults = resolve(config_of(**{name: value}), LIMITS)
    assert is_value(resolve(None, LIMITS, defaults), name, value)
    config = resolve(config_of(**{name: another}), LIMITS, defaults)
    assert is_value(config, name, another)
    assert changes(resolve(None, LIMITS), config) == {name}


@each_attribute
def test_an_update_changes_what_it_names(name: str) -> None:
    value, another = VALUES[name]
    old = resolve(config_of(annotation="kept", max_length=77, address="h:7") if name == "labels" else None, LIMITS)
    for mask in ([name], []):
        new = updated(old, config_of(**{name: value}), mask, LIMITS)
        assert is_value(new, name, value)
        assert changes(old, new) == {name}
        again = updated(new, config_of(**{name: another}), mask, LIMITS)
        assert is_value(again, name, another), "as a whole, and not merged"
    back = updated(new, config_of(), [name], LIMITS)
    assert changes(back, old) == set()
    defaults = resolve(config_of(**{name: another}), LIMITS)
    to_defaults = updated(new, config_of(), [name], LIMITS, defaults=defaults)
    assert is_value(to_defaults, name, another)


@each_attribute
def test_the_first_instance_brings_it_and_the_second_agrees(name: str) -> None:
    value, another = VALUES[name]
    old = resolve(None, LIMITS)
    made = opened(old, config_of(**{name: value}), LIMITS, first=True, frozen=False, defaults=None)
    assert made is not None
    assert changes(old, made) == {name}
    assert opened(made, config_of(**{name: value}), LIMITS, first=False, frozen=True, defaults=None) is None
    other = value if name in ("address", "remote_clients_allowed") else another
    if is_value(made, name, other):
        other = getattr(old, name)
    options = config_of(**{name: other})
    if name in ("address", "remote_clients_allowed"):
        assert opened(old, options, LIMITS, first=False, frozen=False, defaults=None) is None, "each sees its own"
    elif name in told(options):
        with pytest.raises(Refused) as refused:
            opened(made, options, LIMITS, first=False, frozen=False, defaults=None)
        assert refused.value.reason == common_pb2.REASON_CONFIG_MISMATCH
        assert refused.value.metadata == {"attribute": name}


def test_without_options_nothing_changes() -> None:
    old = resolve(None, LIMITS)
    for first in (True, False):
        assert opened(old, config_of(), LIMITS, first=first, frozen=False, defaults=None) is None


@pytest.mark.parametrize("name", ["replication", "domain"])
def test_its_place_is_fixed_for_good(name: str) -> None:
    old = resolve(config_of(domain="here"), LIMITS)
    same, other = getattr(old, name), admin_pb2.REPLICATION_PRODUCER if name == "replication" else "there"
    assert opened(old, config_of(**{name: same}), LIMITS, first=True, frozen=False, defaults=None) is None
    for first in (True, False):
        with pytest.raises(Refused) as refused:
            opened(old, config_of(**{name: other}), LIMITS, first=first, frozen=False, defaults=None)
        assert refused.value.reason == common_pb2.REASON_CONFIG_MISMATCH
    with pytest.raises(Refused) as refused:
        updated(old, config_of(**{name: same}), [name], LIMITS)
    assert refused.value.reason == common_pb2.REASON_READ_ONLY


@each_attribute
def test_what_freezes_changes_while_the_queue_is_configured_and_not_after(name: str) -> None:
    change = config_of(**{name: VALUES[name][0]})
    if name in FROZEN:
        with pytest.raises(Refused) as refused:
            updated(resolve(None, LIMITS), change, [name], LIMITS, frozen=True)
        assert refused.value.reason == common_pb2.REASON_READ_ONLY
    else:
        updated(resolve(None, LIMITS), change, [name], LIMITS, frozen=True)


def test_what_the_profile_says_is_the_last_word() -> None:
    limits = Limits(
        persistence=admin_pb2.PERSISTENCE_VOLATILE,
        domain_name="here",
        queue_length_max=7,
        queue_bytes_max=70,
        message_bytes_max=9,
        lease_ms=11,
        deliveries_max=3,
        queue_type=admin_pb2.QUEUE_TYPE_ONE_WAY_ACK,
        default_settle=service_pb2.SETTLE_MODE_IMMEDIATE,
        empty_idle_ms=12,
        dead_letter=False,
        reply_ms=13,
        completion_ms=14,
        message_dedup_ms=15,
        message_dedup_max=16,
    )
    config = resolve(None, limits)
    assert (config.persistence, config.domain, config.max_length) == (admin_pb2.PERSISTENCE_VOLATILE, "here", 7)
    assert (config.max_bytes, config.max_message_bytes, config.max_deliveries, config.dedup_max) == (70, 9, 3, 16)
    assert (config.queue_type, config.default_settle) == (limits.queue_type, limits.default_settle)
    times = ("lease_duration", "empty_idle_expiry", "reply_timeout", "completion_retention", "dedup_window")
    assert [milliseconds(getattr(config, name)) for name in times] == [11, 12, 13, 14, 15]
    assert config.HasField("dead_letter_queue")
    assert (config.dead_letter_queue, dead_letter_name("q", config)) == ("", "")
    assert not resolve(None, LIMITS).HasField("dead_letter_queue")
    assert dead_letter_name("q", resolve(None, LIMITS)) == "q.dead"
    assert dead_letter_name("q", resolve(config_of(dead_letter_queue="graves"), limits)) == "graves"
    never = resolve(config_of(empty_idle_expiry={"seconds": 0}), limits)
    assert milliseconds(never.empty_idle_expiry) == 0, "never, because its creator says so"


def test_a_two_way_queue_delivers_under_a_lease_unless_somebody_asks_for_what_cannot_be() -> None:
    two_way, immediate = admin_pb2.QUEUE_TYPE_TWO_WAY, service_pb2.SETTLE_MODE_IMMEDIATE
    limits = Limits(default_settle=immediate)
    assert resolve(config_of(queue_type=two_way), limits).default_settle == service_pb2.SETTLE_MODE_LEASE
    old = resolve(None, limits)
    assert old.default_settle == immediate
    new = updated(old, config_of(queue_type=two_way), ["queue_type"], limits)
    assert new.default_settle == service_pb2.SETTLE_MODE_LEASE
    asked = config_of(queue_type=two_way, default_settle=immediate)
    for make in (
        lambda: resolve(asked, limits),
        lambda: updated(old, asked, ["queue_type", "default_settle"], limits),
        lambda: updated(new, config_of(default_settle=immediate), ["default_settle"], limits),
    ):
        with pytest.raises(Refused):
            make()
    one_way = updated(old, config_of(queue_type=admin_pb2.QUEUE_TYPE_ONE_WAY_ACK), ["queue_type"], limits)
    assert one_way.default_settle == immediate


@pytest.mark.parametrize("way", ["enqueue", "dequeue"])
def test_a_time_of_enabling_goes_with_its_switch(way: str) -> None:
    switch, name = f"{way}_enabled", f"{way}_enabled_at"
    waits = resolve(config_of(**{switch: False, name: {"seconds": 9}}), LIMITS)
    on = updated(waits, config_of(**{switch: True}), [switch], LIMITS)
    assert not on.HasField(name)
    off = updated(waits, config_of(**{switch: False}), [switch], LIMITS)
    assert getattr(off, name).seconds == 9, "as it was"
    later = updated(waits, config_of(**{switch: False, name: {"seconds": 10}}), [switch, name], LIMITS)
    assert getattr(later, name).seconds == 10
    for mask in ([switch, name], [name]):
        with pytest.raises(Refused):
            updated(on, config_of(**{switch: True, name: {"seconds": 10}}), mask, LIMITS)

"""Translates registers to and from what etcd keeps of them, one key for each (pair, domain); it never calls etcd.

A value is one line of JSON, so that `etcdctl get` shows an operator who is master. It is written in exactly one form,
for a set compares its bytes: two values are equal when, and only when, the registers are. Pair and domain stand in it
again: a value that was copied to another key is not taken for that key's.
"""

from __future__ import annotations

import msgspec

from failover.register import Register, RegisterState, check_form
from failover.wire import BadRegisterError

FORMAT = 1


class _Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields in the order in which they are written."""

    format: int
    pair: str
    domain: str
    version: int
    epoch: int
    state: str
    holder: str
    in_sync_set: list[str]
    committed_set: list[str]
    nonce: str


def key_of(prefix: str, pair: str, domain: str) -> bytes:
    """PREFIX/PAIR/DOMAIN, for example `/tandemq/orders/main`; a slash after the prefix is added when it lacks one."""
    return f"{prefix.removesuffix('/')}/{pair}/{domain}".encode()


def to_value(register: Register, pair: str, domain: str) -> bytes:
    """The only form in which this register is written."""
    value = _Value(
        format=FORMAT,
        pair=pair,
        domain=domain,
        version=register.version,
        epoch=register.epoch,
        state=register.state.name,
        holder=register.holder,
        in_sync_set=sorted(register.in_sync_set),
        committed_set=sorted(register.committed_set),
        nonce=register.nonce.hex(),
    )
    return msgspec.json.encode(value)


def from_value(data: bytes, pair: str, domain: str) -> Register:
    """Raises BadRegisterError for anything that `to_value` would not have written for this pair and domain."""
    try:
        value = msgspec.json.decode(data, type=_Value)
        register = Register(
            version=value.version,
            epoch=value.epoch,
            holder=value.holder,
            in_sync_set=frozenset(value.in_sync_set),
            committed_set=frozenset(value.committed_set),
            state=RegisterState[value.state],
            nonce=bytes.fromhex(value.nonce),
        )
    except msgspec.DecodeError as error:
        raise BadRegisterError(f"it is no register: {error}") from error
    except KeyError as error:
        raise BadRegisterError(f"its state {error} is not known here") from error
    except ValueError as error:
        raise BadRegisterError(f"its nonce is not hexadecimal: {error}") from error
    if value.format != FORMAT:
        raise BadRegisterError(f"it has format {value.format}, this program reads {FORMAT}")
    if (value.pair, value.domain) != (pair, domain):
        raise BadRegisterError(f"it is the register of pair {value.pair!r}, domain {value.domain!r}")
    if (why := check_form(register)) is not None or register.is_new:
        raise BadRegisterError(why or "it has version 0, which nobody writes")
    if to_value(register, pair, domain) != data:
        raise BadRegisterError("it was not written by a member: spelling or order differ from what members write")
    return register

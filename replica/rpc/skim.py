"""Reads of a request what names something, and nothing else: messages and their properties are stepped over, so that
it costs little and no map is built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

PACKAGE = "tandemq.skim"


class Skim:
    """Of one type of request, for some paths: fields joined by dots, through repeated ones too."""

    def __init__(self, kind: Descriptor, paths: Iterable[str]) -> None:
        self._kind = _narrowed(kind, frozenset(filter(None, paths)))

    def read(self, data: bytes) -> Message | None:
        """None: the bytes are no such request."""
        try:
            return self._kind.FromString(data)
        except DecodeError:
            return None


def names_at(found: Any, path: str) -> Iterator[str]:
    """The texts there, in order; of a message that is not set none, of a text that is not set an empty one."""
    field, _, rest = path.partition(".")
    value = getattr(found, field)
    if found.DESCRIPTOR.fields_by_name[field].is_repeated:
        for each in value:
            yield from names_at(each, rest) if rest else (str(each),)
    elif not rest:
        yield str(value)
    elif found.HasField(field):
        yield from names_at(value, rest)


def entries_at(found: Any, path: str, most: int) -> int:
    """How many entries of repeated fields lead there: what a walk costs. Beyond `most` it is not counted on."""
    level, total = [found], 0
    for name in path.split("."):
        below: list[Any] = []
        for each in level:
            value = getattr(each, name)
            if not each.DESCRIPTOR.fields_by_name[name].is_repeated:
                below.append(value)
                continue
            total += len(value)
            if total > most:
                return total
            below += value
        level = below
    return total


def is_set(found: Any, path: str) -> bool:
    """Whether that message is in the request, or in one of those that a repeated field has."""
    field, _, rest = path.partition(".")
    if found.DESCRIPTOR.fields_by_name[field].is_repeated:
        return any(is_set(each, rest) for each in getattr(found, field))
    return bool(found.HasField(field)) and (not rest or is_set(getattr(found, field), rest))


@cache
def _narrowed(kind: Descriptor, paths: frozenset[str]) -> type[Message]:
    asked = " ".join((kind.full_name, *sorted(paths)))
    name = f"Skim{hashlib.blake2b(asked.encode(), digest_size=8).hexdigest()}"
    file = descriptor_pb2.FileDescriptorProto(name=f"tandemq/skim/{name}.proto", package=PACKAGE, syntax="proto3")
    _fill(file.message_type.add(name=name), f".{PACKAGE}.{name}", kind, paths)
    _POOL.Add(file)
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def _fill(made: descriptor_pb2.DescriptorProto, full_name: str, kind: Descriptor, paths: Iterable[str]) -> None:
    """Fields and nested types, by the numbers of the original: what has no field here is stepped over."""
    below: dict[str, set[str]] = {}
    for path in paths:
        field, _, rest = path.partition(".")
        below.setdefault(field, set()).update({rest} - {""})
    for place, name in enumerate(sorted(below)):
        known = kind.fields_by_name[name]
        copy = made.field.add(name=name, number=known.number)
        copy.label = copy.LABEL_REPEATED if known.is_repeated else copy.LABEL_OPTIONAL
        if known.message_type is None:
            copy.type = copy.TYPE_STRING
            continue
        inner = made.nested_type.add(name=f"Part{place}")
        copy.type, copy.type_name = copy.TYPE_MESSAGE, f"{full_name}.{inner.name}"
        _fill(inner, copy.type_name, known.message_type, below[name])


_POOL = descriptor_pool.DescriptorPool()

"""A literal of a message in the Rust client names every field, or says `..`: a field that is added breaks no build."""

from __future__ import annotations

import re
from collections.abc import Iterator

from google.protobuf import descriptor_pool

import tandemq.v1.queue_admin_service_pb2
import tandemq.v1.queue_service_pb2
import tandemq.v1.transaction_service_pb2  # noqa: F401 - each enters its messages into the pool
from tests.interop.clients import HERE

BEGINS = re.compile(r"(?<!struct )(?<!impl )(?<!-> )\b([A-Z]\w+) \{")
WORD = re.compile(r"\s*(\w+)")


def parts_of(text: str) -> list[str]:
    """What commas divide, outside of brackets; up to the bracket that ends it."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "({[<") - (character in ")}]>")
        if depth < 0:
            break
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return [each for each in found if each.strip()]


def literals() -> Iterator[tuple[str, str, list[str]]]:
    pool = descriptor_pool.Default()
    for path in sorted((HERE / "rust" / "src").glob("*.rs")):
        text = path.read_text(encoding="utf-8")
        for match in BEGINS.finditer(text):
            try:
                fields = pool.FindMessageTypeByName(f"tandemq.v1.{match[1]}")
            except KeyError:
                continue
            parts = parts_of(text[match.end() :])
            named = [said[1] for each in parts if (said := WORD.match(each))]
            if not any(each.strip().startswith("..") for each in parts):
                wanted = {each.name for each in fields.fields if each.containing_oneof is None}
                wanted |= {each.name for each in fields.oneofs if not each.name.startswith("_")}
                wanted |= {each.name[1:] for each in fields.oneofs if each.name.startswith("_")}
                yield f"{path.name}: {match[1]}", " ".join(sorted(wanted)), sorted(named)


def test_a_literal_names_every_field_or_says_that_there_are_more() -> None:
    found = list(literals())
    assert len(found) > 3, "the literals are looked for in vain"
    assert [where for where, wanted, named in found if wanted.split() != named] == []

"""The recipes in docs/CLIENTS.md: those of Go, Java, Node and Rust are cut out of the clients that run, that of Python
runs here, and that of C#, which nothing here can compile, uses the names of the contract.
"""

from __future__ import annotations

import asyncio
import re
import textwrap
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor, ServiceDescriptor

import tandemq
from tandemq.v1 import queue_service_pb2
from tests.support.clusters import quick

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "CLIENTS.md").read_text(encoding="utf-8")
PIECES = re.findall(r"(?ms)^<!-- (tests/interop/\S+) -->\n```\w+\n(.*?)\n```$", PAGE)


def section(language: str) -> str:
    return PAGE.partition(f"\n### {language}\n")[2].partition("\n### ")[0].partition("\n## ")[0]


def code(language: str) -> str:
    [piece] = re.findall(r"(?ms)^```\w+\n(.*?)\n```$", section(language))
    return str(piece)


@pytest.mark.parametrize(("path", "piece"), PIECES)
def test_a_recipe_is_the_code_that_runs(path: str, piece: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    depths = ("", " " * 2, " " * 4)
    assert any(textwrap.indent(piece, depth) in source for depth in depths), f"{path} does not have:\n{piece}"


@pytest.mark.parametrize("language", ["Python", "Go", "Java", "Node", "Rust", "C#"])
def test_each_language_has_a_recipe(language: str) -> None:
    assert "```" in section(language)


@pytest.mark.process
async def test_the_recipe_for_python_runs(tmp_path: Path) -> None:
    async with quick(tmp_path).running() as cluster:
        recipe = code("Python")
        assert recipe.count('"127.0.0.1:7600,127.0.0.1:7610"') == 1
        program = recipe.replace("127.0.0.1:7600,127.0.0.1:7610", cluster.target)
        async with tandemq.aio.connect(cluster.target) as client:
            await client.create_queue("orders")
            await asyncio.to_thread(exec, program, {"tandemq": tandemq})
            assert (await client.get_queue("orders")).length == 0


def wrong_names(program: str) -> list[str]:
    """What a C# program asks of the stubs that `protoc` would not give it: messages, fields, methods, values."""
    found: list[str] = []
    files: list[FileDescriptor] = [queue_service_pb2.DESCRIPTOR, *queue_service_pb2.DESCRIPTOR.dependencies]
    messages: dict[str, Descriptor] = {
        name: each for file in files for name, each in file.message_types_by_name.items()
    }
    enums: dict[str, EnumDescriptor] = {name: each for file in files for name, each in file.enum_types_by_name.items()}
    service: ServiceDescriptor = queue_service_pb2.DESCRIPTOR.services_by_name["QueueService"]
    for name, body in re.findall(r"new (\w+) \{([^}]*)\}", program):
        if name not in messages:
            found.append(name)
            continue
        fields = {each.name.title().replace("_", "") for each in messages[name].fields}
        found += [f"{name}.{field}" for field in re.findall(r"(\w+) = ", body) if field not in fields]
    found += [
        f"{name}Async" for name in re.findall(r"queues\.(\w+)Async", program) if name not in service.methods_by_name
    ]
    for enum, value in re.findall(r"= (\w+)\.(\w+)[ ,}]", program):
        if enum in enums and f"{enum}_{value}".upper() not in enums[enum].values_by_name:
            found.append(f"{enum}.{value}")
    return found


def test_the_recipe_for_c_sharp_uses_the_names_of_the_contract() -> None:
    recipe = code("C#")
    assert wrong_names(recipe) == []
    for right, wrong, said in (
        ("new DequeueRequest", "new TakeRequest", "TakeRequest"),
        ("MaxMessages = 10", "Limit = 10", "DequeueRequest.Limit"),
        ("queues.SettleAsync", "queues.AckAsync", "AckAsync"),
        ("Outcome.Ack", "Outcome.Done", "Outcome.Done"),
    ):
        assert right in recipe
        assert wrong_names(recipe.replace(right, wrong)) == [said]
    assert "neither compiled nor run here" in section("C#")

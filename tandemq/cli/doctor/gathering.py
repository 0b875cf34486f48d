"""Gathers what goes into a bundle, most useful first; never a payload, a property or an identity of a message, because
nothing that it asks has one.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import platform
import resource
import sys
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec

from tandemq.cli.doctor import asking, machine
from tandemq.cli.doctor.bundle import Part, json_part, lines_part, missing
from tandemq.cli.doctor.finding import Finding
from tandemq.cli.doctor.places import Local, Places
from tandemq.cli.doctor.redaction import Redactor
from tandemq.cli.view import problem_of
from tandemq.config import ConfigError, ManagerConfig, parse_address
from tandemq.credentials import names
from tandemq.credentials.bad import BadCredentials
from tandemq.escaping import json_text

TAIL_BYTES = 4 << 20  # of each log and journal; older lines are not read
EVENT_FILES = ("events.1.jsonl", "events.jsonl")
JOURNAL_FILE = "classifier.jsonl"
KEPT_VARIABLES = ("TANDEMQ_", "MOS_", "GRPC_", "PYTHON", "LC_", "OTEL_", "UV_", "INVOCATION_ID", "NOTIFY_SOCKET")
KEPT_EXACTLY = ("PATH", "LANG", "TZ", "LD_PRELOAD", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


async def gather(
    places: Places, asked: asking.Asked, findings: Sequence[Finding], redactor: Redactor, timeout_s: float
) -> list[Part]:
    """Every part, those that could not be had among them."""
    configs = [_config(local, redactor) for local in places.locals]  # first: it learns what is secret
    environ = environment(redactor)
    here = [member for member in asked.view.members if member.reachable]
    members = await asyncio.gather(*(_member(each.name, each.endpoint, redactor, timeout_s) for each in here))
    away = [
        missing(f"members/{each.name or each.endpoint}/status.json", each.problem)
        for each in asked.view.members
        if not each.reachable
    ]
    parts = [json_part("findings.json", redactor.value(msgspec.to_builtins(list(findings)))), environ, *configs]
    parts += [json_part("pair.json", redactor.value(msgspec.to_builtins(asked.view)))]
    parts += [part for each in members for part in each] + away
    parts += [_witness(endpoint, said) for endpoint, said in asked.witnesses.items()]
    parts += await asyncio.gather(*(_metrics(local, timeout_s) for local in places.locals if local.config))
    parts += [part for local in places.locals for part in files_of(local, redactor)]
    parts += [_tail(path, f"logs/{path.name}", redactor) for path in places.logs]
    return _named_once(parts)


def _named_once(parts: Iterable[Part]) -> list[Part]:
    """Two logs of one name from two directories are two files."""
    seen: dict[str, int] = {}
    found = []
    for part in parts:
        seen[part.name] = seen.get(part.name, 0) + 1
        number = seen[part.name]
        found.append(part if number == 1 else part._replace(name=f"{part.name}.{number}"))
    return found


def _config(local: Local, redactor: Redactor) -> Part:
    name = f"config/{local.config.member if local.config else Path(local.source).stem}.json"
    if local.config is None:
        return json_part(name, {"source": local.source, "problem": redactor.text(local.problem)})
    rows = [
        {"key": each.key, "value": redactor.value(each.value, each.key.rpartition(".")[2]), "origin": each.origin}
        for each in local.settings
    ]
    return json_part(name, {"source": local.source, "settings": rows})


def environment(redactor: Redactor, environ: Mapping[str, str] = os.environ) -> Part:
    """Versions, limits and variables that matter to us; of the others not even the names."""
    from tandemq.cli.version import PACKAGES, versions

    variables = {}
    for name, value in sorted(environ.items()):
        if name.startswith(KEPT_VARIABLES) or name in KEPT_EXACTLY or name.lower() in PROXIES:
            words = redactor.arguments(value.split(",")) if name.endswith("_COMMAND") else None
            variables[name] = ",".join(words) if words is not None else redactor.value(value, name)
    facts = {
        "versions": versions(PACKAGES),
        "python": sys.version,
        "executable": sys.executable,
        "platform": platform.platform(),
        "host": platform.node(),
        "cpus": os.cpu_count(),
        "load": list(os.getloadavg()),
        "memory": _proc("/proc/meminfo"),
        "limits": {
            name: resource.getrlimit(getattr(resource, name)) for name in ("RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_FSIZE")
        },
        "mounts": machine.mountinfo().splitlines(),
        "variables": variables,
    }
    return json_part("environment.json", facts)


def _proc(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


async def _member(name: str, endpoint: str, redactor: Redactor, timeout_s: float) -> list[Part]:
    folder = f"members/{name}"

    async def part(file: str, asking_it: Awaitable[Any]) -> Part:
        try:
            said = await asking_it
        except grpc.aio.AioRpcError as error:
            return missing(f"{folder}/{file}", problem_of(error, timeout_s))
        if file.endswith(".json"):
            return json_part(f"{folder}/{file}", redactor.value(said))
        return lines_part(f"{folder}/{file}", (json_text(redactor.value(each)) for each in said))

    return [
        await part("status.json", asking.status_of(endpoint, timeout_s)),
        await part("manager.json", asking.manager_of(endpoint, timeout_s)),
        await part("events.jsonl", asking.events_of(endpoint, timeout_s)),
        await part("queues.json", asking.queues_of(endpoint, timeout_s)),
    ]


def _witness(endpoint: str, said: object) -> Part:
    name = f"witness/{endpoint.replace(':', '_')}.json"
    return missing(name, said) if isinstance(said, str) else json_part(name, asking.as_dict(said))


async def _metrics(local: Local, timeout_s: float) -> Part:
    assert local.config is not None
    name = f"members/{local.config.member}/metrics.txt"
    try:
        shown = shown_at(local.config)
        page = await asyncio.to_thread(asking.metrics_of, local.config.listen_http, timeout_s, *shown)
    except (OSError, http.client.HTTPException, ConfigError, BadCredentials) as error:
        return missing(name, f"{local.config.listen_http}: {error}")
    return Part(name, page)


def shown_at(config: ManagerConfig) -> tuple[Path | None, str]:
    """Whose certificate is shown at the HTTP port, and which name is expected there: the member's own. None: a port of
    this host alone is plain.
    """
    if not config.security.credentials or parse_address(config.listen_http, "listen_http").loopback:
        return None, ""
    return Path(config.security.credentials), names.dns(names.member(config.pair or config.member, config.member))


def files_of(local: Local, redactor: Redactor) -> list[Part]:
    """What a member of this machine keeps beside its store, whether it runs or not."""
    if local.config is None:
        return []
    directory, folder = Path(local.config.data_dir), f"data/{local.config.member}"
    listing = (
        [f"{path.name} {path.stat().st_size}" for path in sorted(directory.iterdir())] if directory.is_dir() else []
    )
    parts = [lines_part(f"{folder}/files.txt", listing)]
    parts += [
        _tail(directory / name, f"{folder}/{name}", redactor)
        for name in (*EVENT_FILES, JOURNAL_FILE)
        if (directory / name).exists()
    ]
    return parts


def _tail(path: Path, name: str, redactor: Redactor) -> Part:
    """The newest lines of a file, without what is secret."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            data = file.read(TAIL_BYTES)
    except OSError as error:
        return missing(name, f"{path}: {error.strerror}")
    why = ""
    if size > TAIL_BYTES:
        data = data[data.find(b"\n") + 1 :]
        why = f"the newest {len(data)} of {size} bytes"
    return Part(name, redactor.lines(data.decode(errors="replace")).encode(), why, by_lines=True)

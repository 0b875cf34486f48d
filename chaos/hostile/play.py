"""Tries the hostile inputs at a pair with certificates, one after the other, while another client goes on sending."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

import chaos.hostile.bearers
import chaos.hostile.inside
import chaos.hostile.outside
from chaos.cluster import CLIENT, WITNESS, Cluster
from chaos.hostile.account import FAILED, INVALID, MEMORY_MIB, SAMPLES_MIN, Row, judged
from chaos.hostile.changing import changes_of
from chaos.hostile.faults import faults_of
from chaos.hostile.inputs import INPUTS, Input
from chaos.hostile.keeping import QUOTA as HOARDS
from chaos.hostile.keeping import WHO as HOARDER
from chaos.hostile.target import Target
from chaos.hostile.watching import Sends, logs, memory_mib, percentile, sending, written
from chaos.preload import Preload, PreloadError
from chaos.secure.impostors import prepare_impostors
from chaos.secure.issuer import Issuer, bearer_ports, issuer, taking_tokens
from tandemq import aio
from tandemq.cli.output import say
from tandemq.cli.view import PairView
from tandemq.config import member_ports
from tandemq.config_security import Security
from tandemq.credentials.authority import create
from tandemq.credentials.development import prepare
from tandemq.credentials.names import member

PAIR = "pair"
PEOPLE = {
    "a": member(PAIR, "a"),
    "b": member(PAIR, "b"),
    WITNESS: "witness/witness",
    CLIENT: "principal/ops",
    **{
        name: f"principal/{name}"
        for name in ("ops", "billing", "honest", "flooder", "crowd", chaos.hostile.keeping.WHO)
    },
}
GRANTS = (
    *(("billing", right, queue) for queue in ("orders", "large") for right in ("produce", "consume", "browse")),
    ("honest", "produce", "honest"),
    ("flooder", "produce", "orders"),
    ("crowd", "produce", "orders"),
    *((HOARDER, right, "hoard/**") for right in ("administer", "produce", "consume")),
)
QUOTAS = ("flooder=calls:100", "crowd=connections:10,units:10", HOARDS)
QUIET_S, BETWEEN_S = 2.0, 0.4
"""Nobody is hostile for so long at first, and between two inputs."""
WATCH_S, ATTACK_S, BACK_S, SYNC_S = 5.0, 120.0, 60.0, 60.0
LARGE, LARGE_BYTES = 20, 100_000
"""Batches of ten messages of so many bytes, which wait for a reader that never reads."""
TRIES = 3
"""Of an input that the machine decided about."""


@asynccontextmanager
async def pair_of(directory: Path, *, hole: bool) -> AsyncIterator[tuple[Cluster, Path, Issuer]]:
    """A pair with certificates, tokens, rights and a quota; its authority, and the issuer of tokens."""
    authority, credentials = directory / "authority", directory / "credentials"
    create(authority)
    prepare(credentials, authority, PEOPLE)
    settings = {
        name: {"security": Security(credentials=str(credentials / name), administrators=("ops",), quotas=QUOTAS)}
        for name in ("a", "b")
    }
    of = issuer(directory)
    preload: Preload | None = Preload(directory / "preload", ("a", "b"))
    try:
        assert preload is not None
        preload.prepare()
    except PreloadError as error:
        say(f"no wrong clock: {error}")
        preload = None
    cluster = Cluster(
        directory / "pair", pair=PAIR, secured=credentials, operators=["ops"], settings=settings, preload=preload
    )
    for name, more in taking_tokens(of, bearer_ports(cluster)).items():
        settings[name] |= more
    if hole:
        for name in cluster.members:
            cluster.children[name].arguments[:1] = ["chaos.secure.hole"]
    async with cluster.running(SYNC_S):
        async with aio.connect(cluster.target, credentials=credentials / "ops", timeout=SYNC_S) as ops:
            for queue in ("orders", "large", "honest"):
                await ops.create_queue(queue)
            for grant in GRANTS:
                await ops.grant_right(*grant)
            for _ in range(LARGE):
                await ops.enqueue("large", [bytes(LARGE_BYTES)] * 10)
        yield cluster, authority, of


async def play(directory: Path, only: Collection[str], *, hole: bool, timed: bool) -> tuple[list[Row], int]:
    """The rows, and how many there had to be. `only`: inputs whose name has one of these words; empty: all.

    `timed`: see `judged`.
    """
    rows: list[Row] = []
    async with pair_of(directory, hole=hole) as (cluster, authority, of):
        credentials = Path(cluster.credentials).parent
        made = prepare_impostors(credentials, authority, PAIR)
        tokens = chaos.hostile.bearers.false_tokens(of)
        inputs = [*INPUTS.values(), *changes_of(cluster), *faults_of(cluster, authority, PEOPLE)]
        chosen = [each for each in inputs if not only or any(word in each.name for word in only)]
        async with sending(cluster, credentials / "honest") as sends:
            began_s = time.monotonic()
            await asyncio.sleep(QUIET_S if timed else 0.0)
            sends.quiet.extend(each.took_ms for each in sends.since(began_s))
            for each in chosen:
                row = await _until_valid(cluster, each, made, tokens, sends, timed=timed)
                rows.append(row)
                say(
                    f"{row.held:10.60} {row.input}: {row.answer}, p99 {row.p99_before_ms:g} to {row.p99_during_ms:g} ms"
                )
    return rows, len(chosen)


async def _until_valid(
    cluster: Cluster, each: Input, made: Path, tokens: dict[str, str], sends: Sends, *, timed: bool
) -> Row:
    row = await _row(cluster, each, await _target(cluster, made, tokens), sends, timed=timed)
    for _ in range(TRIES - 1):
        if row.held == INVALID:
            row = await _row(cluster, each, await _target(cluster, made, tokens), sends, timed=timed)
    return row


async def _target(cluster: Cluster, made: Path, tokens: dict[str, str]) -> Target:
    view = await cluster.wait_for(PairView.whole, "whole", SYNC_S)
    (master,) = view.masters()
    names = [master, *(name for name in cluster.members if name != master)]
    ports = {name: member_ports(cluster.base_port, list(cluster.members).index(name)) for name in names}
    return Target(
        clients={name: cluster.endpoint(name) for name in names},
        peers={name: f"{cluster.host}:{ports[name].peer}" for name in names},
        https={name: f"{cluster.host}:{ports[name].http}" for name in names},
        bearers=bearer_ports(cluster),
        tokens=tokens,
        witness=cluster.witness_endpoint,
        credentials=str(Path(cluster.credentials).parent),
        impostors=str(made),
    )


async def _row(cluster: Cluster, each: Input, target: Target, sends: Sends, *, timed: bool) -> Row:
    began_s = time.monotonic()
    await asyncio.sleep(BETWEEN_S if timed else 0.0)
    sends.quiet.extend(each.took_ms for each in sends.since(began_s))
    before, memory, sizes = list(sends.quiet), memory_mib(cluster), logs(cluster)
    failed, began_s = len(sends.failed), time.monotonic()
    answer = await _answer(each, target)
    took_s = time.monotonic() - began_s
    await sends.many_since(began_s, SAMPLES_MIN if timed else 1, WATCH_S)
    found, text = sends.since(began_s), written(sizes)
    during, at_least = [each.took_ms for each in found], [each.at_least_ms for each in found]
    row = Row(
        each.name,
        answer,
        percentile(before, 0.5),
        percentile(before, 0.99),
        percentile(during, 0.5),
        percentile(during, 0.99),
        percentile(at_least, 0.99),
        percentile(at_least, 1.0),
        len(found),
        len(sends.failed) - failed,
        memory,
        await _memory_back(cluster, memory),
        len(text),
        b"\x1b" not in text,
        round(took_s, 2),
        "",
    )
    return judged(row, each.wanted, timed=timed)


async def _answer(each: Input, target: Target) -> str:
    """In a process of its own, unless it needs the pair's own hands."""
    try:
        async with asyncio.timeout(ATTACK_S):
            if INPUTS.get(each.name) is not each:
                return await each.attack(target)
            words = [sys.executable, "-m", "chaos.hostile.attacker", each.name]
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe)
            try:
                out, error = await process.communicate(msgspec.json.encode(target))
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
    except TimeoutError:
        return "no answer"
    try:
        return str(msgspec.json.decode(out))
    except msgspec.DecodeError:
        return f"{FAILED}: {error.decode(errors='replace')[-300:]}"


async def _memory_back(cluster: Cluster, before: float) -> float:
    """After a minute at most: as soon as it is back within what it may."""
    deadline_s = time.monotonic() + BACK_S
    now = memory_mib(cluster)
    while now > before + MEMORY_MIB and time.monotonic() < deadline_s:
        await asyncio.sleep(1.0)
        now = memory_mib(cluster)
    return now

"""Whose pair a drill is played on: one of its own, the one of `tandemq dev`, or somebody's.

It decides what can be done to each, never what is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chaos.cluster import Cluster, describe
from chaos.drill.leftovers import heal_leftovers
from chaos.drill.plan import Drill
from chaos.faults import FaultError
from chaos.network import Network
from chaos.pair import Hands, Pair
from chaos.preload import Preload
from chaos.scenario import ClusterHands
from chaos.toxics import ToxiproxyError
from chaos.toxiproxy import find_server
from tandemq.cli import opening
from tandemq.cli.holding import held
from tandemq.cli.view import PairView, look
from tandemq.credentials.chosen import opener_of

if TYPE_CHECKING:
    from chaos.toxic_relays import FoundRelays

POLL_S = 0.05
GONE_S = 10.0
HOOK_S = 60.0
WAIT_S = 20.0
HOOKS = ("kill", "start")
AT_TARGET = ("kill", "handoffs")
LOCK_FILE = "drill.lock"

Ask = Callable[[dict[str, Any]], dict[str, Any]]


class StageError(RuntimeError):
    """There is no pair here that the drill could be played on; nothing was hurt."""


class Stage(NamedTuple):
    """A pair and what can be done to it."""

    pair: Pair
    hands: Hands
    origin: str  # printed in the report
    alone: bool = True  # nobody else uses it
    mended: tuple[str, ...] = ()  # what an earlier drill had left there, healed before this one


@asynccontextmanager
async def fresh(*, needs_network: bool, needs_preload: bool) -> AsyncIterator[Stage]:
    """A pair and a witness of the drill's own, ended with it. Raises StageError or another RuntimeError."""
    program = find_server() if needs_network else None
    if needs_network and program is None:
        raise StageError("toxiproxy-server is missing: put it on the PATH, or build it with `make chaos-deps`")
    with contextlib.ExitStack() as cleanup:
        directory = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tandemq-drill-")))
        preload = Preload(directory / "preload", ("a", "b")) if needs_preload else None
        if preload is not None:
            await asyncio.to_thread(preload.prepare)
        cluster = Cluster(directory, toxiproxy=program, preload=preload, pair="drill")
        async with cluster.running():
            yield Stage(cluster, ClusterHands(cluster), "a pair of its own")


# -- the pair of `tandemq dev` -----------------------------------------------------------------------------------------


class DevHands:
    """Hurts the processes of a development pair by their ids; its supervisor starts them again."""

    def __init__(self, ask: Ask, network: Network | None) -> None:
        self._ask, self._network = ask, network

    @property
    def network(self) -> Network | None:
        return self._network

    def _processes(self) -> list[dict[str, Any]]:
        return list(self._ask({"verb": "status"})["processes"])

    def _process(self, name: str) -> dict[str, Any]:
        found = next((each for each in self._processes() if each["name"] == name), None)
        if found is None:
            raise FaultError(f"`tandemq dev` runs no {name}")
        return dict(found)

    def _signal(self, name: str, number: int) -> None:
        process = self._process(name)
        if process["running"]:
            os.killpg(process["pid"], number)

    @property
    def preload(self) -> Preload | None:
        return None

    async def kill(self, name: str) -> None:
        await asyncio.to_thread(self._signal, name, signal.SIGKILL)
        deadline = time.monotonic() + GONE_S
        while (await asyncio.to_thread(self._process, name))["running"]:
            if time.monotonic() > deadline:
                raise FaultError(f"{name} still runs {GONE_S:g} s after kill -9")
            await asyncio.sleep(POLL_S)

    def freeze(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    async def start(self, name: str) -> None:
        if not (await asyncio.to_thread(self._process, name))["running"]:
            await asyncio.to_thread(self._ask, {"verb": "restart", "name": name})

    def check_alive(self, may_end: Sequence[str]) -> None:
        """`tandemq dev` says who ended, not by whose hand."""

    async def ended(self, name: str) -> bool:
        return not (await asyncio.to_thread(self._process, name))["running"]

    def states(self) -> dict[str, str]:
        return {each["name"]: each["state"] for each in self._processes()}


@asynccontextmanager
async def of_dev(context: Mapping[str, Any], ask: Ask) -> AsyncIterator[Stage]:
    """The pair that `context` (tandemq.cli.context) describes, healed of what an earlier drill has left; for one drill
    at a time. Heals its network at the end. Raises StageError."""
    directory = Path(context["data_dir"])
    base_port = int(context["target"].partition(",")[0].rpartition(":")[2])
    toxiproxy = context.get("toxiproxy", "")
    shown = context.get("credentials", "")
    secured = Path(shown).parent if shown else None
    cluster = Cluster(directory, base_port, pair=context["pair"], relayed=bool(toxiproxy), secured=secured)
    network: Network | None = None
    relays: FoundRelays | None = None
    with contextlib.ExitStack() as cleanup:
        if not cleanup.enter_context(held(directory / LOCK_FILE)):
            raise StageError(f"another drill plays on the pair of `tandemq dev` in {directory}; nothing was hurt")
        if toxiproxy:
            from chaos.toxic_relays import FoundRelays

            relays = found = FoundRelays(toxiproxy)
            network = Network(cluster.routes(), lambda: found)
            try:
                await asyncio.to_thread(network.start)
            except ToxiproxyError as error:
                advice = "end `tandemq dev` and start it again with --chaos"
                why = f"the pair's connections cannot be hurt, nothing was hurt: {error}; {advice}"
                raise StageError(why) from error
            cleanup.callback(network.close)
        hands = DevHands(ask, network)
        try:
            mended = await heal_leftovers(cluster, hands, relays)
        except (RuntimeError, OSError) as error:
            raise StageError(f"the pair is hurt and could not be healed; this drill did nothing: {error}") from error
        yield Stage(cluster, hands, f"the pair of `tandemq dev` in {directory}", mended=tuple(mended))


# -- somebody's pair ---------------------------------------------------------------------------------------------------


class NamedPair:
    """A pair that is known by its endpoints."""

    def __init__(self, view: PairView, credentials: str = "") -> None:
        self.credentials = credentials
        self._endpoints = {member.name: member.endpoint for member in view.members if member.name}
        self.pair = view.pair

    @property
    def members(self) -> Sequence[str]:
        return list(self._endpoints)

    @property
    def target(self) -> str:
        return ",".join(self._endpoints.values())

    @property
    def witness_endpoint(self) -> str:
        return ""

    def endpoint(self, name: str) -> str:
        return self._endpoints[name]

    async def status(self) -> PairView:
        return await look(self._endpoints.values(), opener=opener_of(self.credentials))

    async def wait_for(self, condition: Callable[[PairView], bool], what: str, deadline_s: float = WAIT_S) -> PairView:
        deadline = time.monotonic() + deadline_s
        while True:
            view = await self.status()
            if condition(view):
                return view
            if time.monotonic() > deadline:
                raise RuntimeError(f"not {what} within {deadline_s:g} s; seen: {describe(view)}")
            await asyncio.sleep(POLL_S)


class HookHands:
    """Does what the pair's owner wrote down for each deed: a command for each, with {member} and {endpoint} in it."""

    def __init__(self, pair: NamedPair, hooks: Mapping[str, Sequence[str]]) -> None:
        self._pair, self._hooks = pair, hooks

    @property
    def network(self) -> Network | None:
        return None

    @property
    def preload(self) -> Preload | None:
        return None

    async def kill(self, name: str) -> None:
        await self._run("kill", name)

    def freeze(self, name: str) -> None:
        raise FaultError(f"{name} cannot be frozen at --target; use kill, or a pair of the drill's own (--fresh)")

    def thaw(self, name: str) -> None:
        """Nobody froze it."""

    async def start(self, name: str) -> None:
        if not any(member.name == name and member.reachable for member in (await self._pair.status()).members):
            await self._run("start", name)

    def check_alive(self, may_end: Sequence[str]) -> None:
        """As below."""

    async def ended(self, name: str) -> bool:
        """Nobody here can see its process."""
        del name
        return False

    async def _run(self, deed: str, name: str) -> None:
        command = self._hooks.get(deed)
        if not command:
            raise FaultError(f'to {deed} {name} a command is needed: --hooks FILE with {deed} = ["ssh", ...]')
        words = filled(command, name, self._pair.endpoint(name))
        try:
            process = await asyncio.create_subprocess_exec(*words)
        except OSError as error:
            why = f"the command to {deed} {name} cannot be run: {words[0]}: {error.strerror}"
            raise FaultError(why) from error
        try:
            code = await asyncio.wait_for(process.wait(), HOOK_S)
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise FaultError(f"the command to {deed} {name} did not end in {HOOK_S:g} s") from error
        if code:
            raise FaultError(f"the command to {deed} {name} ended with {code}: {' '.join(command)}")


@asynccontextmanager
async def at_target(drill: Drill, endpoints: Sequence[str], hooks: Mapping[str, Sequence[str]]) -> AsyncIterator[Stage]:
    """The pair that answers there. Raises StageError when nobody does, or a member alone, or when not every fault of
    the drill can be made and healed there."""
    view = await look(endpoints)
    if not any(member.reachable for member in view.members):
        raise StageError(
            f"nobody answers at {', '.join(endpoints)} as a member of a pair, nothing was hurt ({view.problems()})"
        )
    if strangers := await _two_pairs(endpoints):
        raise StageError(f"members of two pairs: {strangers}; nothing was sent and nothing was hurt")
    pair = NamedPair(view, opening.directory())
    if len(pair.members) != 2:
        raise StageError(f"a drill needs a pair; at {', '.join(endpoints)} there is {', '.join(pair.members)}")
    if why := unfit(drill, hooks):
        raise StageError(f"{'; '.join(why)}; nothing was sent and nothing was hurt")
    yield Stage(pair, HookHands(pair, hooks), f"the pair at {', '.join(endpoints)}", alone=False)


async def _two_pairs(endpoints: Sequence[str]) -> str:
    """What speaks for two: a member's name that stands for two places, as each endpoint knows its own pair."""
    places: dict[str, set[str]] = {}
    for view in await asyncio.gather(*(look([endpoint]) for endpoint in endpoints)):
        for member in view.members:
            if member.reachable:
                places.setdefault(member.name, set()).add(f"{member.endpoint} (pair {view.pair})")
    return "; ".join(f"{name} is {' and '.join(sorted(found))}" for name, found in places.items() if len(found) > 1)


def unfit(drill: Drill, hooks: Mapping[str, Sequence[str]]) -> list[str]:
    """Why the drill cannot be played on somebody's pair with these commands, a sentence each."""
    faults = dict.fromkeys(step.fault for step in drill.method)
    found = [
        f"{fault} cannot be done at --target; kill and handoffs can, and everything with --fresh"
        for fault in faults
        if fault not in AT_TARGET
    ]
    if "kill" not in faults:
        return found
    for deed in HOOKS:
        command = hooks.get(deed)
        if not command:
            found.append(f'to kill members and start them again, --hooks FILE needs {deed} = ["ssh", ...]')
        elif "{" not in command[0] and shutil.which(command[0]) is None:
            found.append(f"{deed}: there is no program {command[0]}")
    return found


def read_hooks(path: Path) -> dict[str, list[str]]:
    """Commands by deed. Raises FaultError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FaultError(f"{path}: {error}") from error
    for name, command in document.items():
        fits = isinstance(command, list) and command and all(isinstance(part, str) for part in command)
        if name not in HOOKS or not fits:
            raise FaultError(f'{path}: {name}: write one of {", ".join(HOOKS)} = ["command", "argument", ...]')
        try:
            filled(command, "a", "127.0.0.1:1")
        except (LookupError, ValueError, AttributeError) as error:
            text = f"{path}: {name} = {command}: what stands in braces is one of {{member}} and {{endpoint}}"
            raise FaultError(f"{text}; a brace itself is written twice") from error
    return document


def filled(command: Sequence[str], member: str, endpoint: str) -> list[str]:
    """The words of a command for one member."""
    return [part.format_map({"member": member, "endpoint": endpoint}) for part in command]

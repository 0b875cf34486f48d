"""Watches the processes of a development pair and does what `tandemq dev` asks; it never restarts one unasked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tandemq.cli import context
from tandemq.cli.cert import authority_place
from tandemq.cli.failure import Failure
from tandemq.cli.logs import readable
from tandemq.cli.output import say as say_line

if TYPE_CHECKING:
    from chaos.cluster import Cluster

WATCH_S = 0.2
_COLOURS = MappingProxyType({"a": "cyan", "b": "magenta", "witness": "yellow"})


def supervise(cluster: Cluster, *, quiet: bool) -> None:
    """Runs the pair until Ctrl-C, SIGTERM or `dev stop`."""
    from tandemq.cli.context import command_in, runs

    if runs(cluster.data_dir):
        raise Failure(
            "DIRECTORY_IN_USE",
            f"another `tandemq dev` runs in {cluster.data_dir}",
            f"stop it with `{command_in(cluster.data_dir, 'stop')}`, or choose another --data-dir",
        )
    if not quiet:
        cluster.on_line = _print_line
    from chaos.cluster import ClusterError, PortTakenError
    from chaos.toxics import ToxiproxyError

    try:
        cluster.check_ports()  # before anything is written
        if cluster.secured is not None:
            _prepare(cluster, cluster.secured)
        asyncio.run(Supervisor(cluster).run())
    except ToxiproxyError as error:
        raise Failure(error.reason, str(error), _logs_of(cluster)) from error
    except PortTakenError as error:  # logs, if there are any, are of another time
        step = "stop what listens there (another `tandemq dev`?), or give --base-port; it moves all ports"
        raise Failure("PORT_IN_USE", str(error), step) from error
    except ClusterError as error:
        raise Failure("FAILED", str(error), _logs_of(cluster)) from error


def _prepare(cluster: Cluster, directory: Path) -> None:
    """Whoever has no certificate, or one that ends soon, gets one of the developers' authority."""
    from chaos.cluster import CLIENT, WITNESS
    from tandemq.credentials import names
    from tandemq.credentials.bad import BadCredentials
    from tandemq.credentials.development import prepare

    people = {name: names.member(cluster.pair, name) for name in cluster.members}
    people |= {WITNESS: f"witness/{names.WITNESS_DEFAULT}", CLIENT: f"principal/{cluster.operators[0]}"}
    step = "mend it; --insecure runs the pair without certificates"
    try:
        made = prepare(directory, authority_place(), people)
    except BadCredentials as error:
        raise Failure(error.reason, str(error), step) from error
    except OSError as error:
        raise Failure("CONFIG_ERROR", f"no certificates can be made: {error}", step) from error
    if made:
        say("dev", f"certificates of {', '.join(made)} were made in {directory}")


def _logs_of(cluster: Cluster) -> str:
    """Where they are, if any process came so far as to have one."""
    logs = cluster.data_dir / "logs"
    return f"logs are in {logs}" if logs.is_dir() and any(logs.iterdir()) else ""


def _print_line(name: str, line: str) -> None:
    say(name, readable(line))


def say(name: str, text: str) -> None:
    for line in text.split("\n"):
        say_line(line, label=f"{name:>7} |", fg=_COLOURS.get(name, "green"))


class Supervisor:
    """Owns the cluster and the control socket while they run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stop_asked = asyncio.Event()
        self._reported: dict[str, int] = {}  # process id of the last death that was reported, by name
        self._busy = asyncio.Lock()  # one restart at a time

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_asked.set)
        async with contextlib.AsyncExitStack() as cleanup:
            while_starting = cleanup.enter_context(contextlib.ExitStack())
            while_starting.enter_context(context.starting_in(self._cluster.data_dir))
            say("dev", f"starting a, b and witness in {self._cluster.data_dir}")
            cleanup.push_async_callback(self._cluster.stop)
            starting = asyncio.ensure_future(self._cluster.start())
            stopping = asyncio.ensure_future(self._stop_asked.wait())
            cleanup.callback(stopping.cancel)
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                return
            await starting
            cleanup.callback(context.forget, self._cluster.data_dir)
            self._write_context()
            await self._open_control(cleanup)
            while_starting.close()
            self._greet()
            await self._watch()
            say("dev", "stopping")

    async def _open_control(self, cleanup: contextlib.AsyncExitStack) -> None:
        path = context.control_path(self._cluster.data_dir)
        path.unlink(missing_ok=True)  # of a supervisor that was killed; a living one was refused before
        mask = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(self._on_question, path)
        finally:
            os.umask(mask)
        cleanup.callback(path.unlink, missing_ok=True)
        cleanup.callback(server.close)

    def _write_context(self) -> None:
        cluster = self._cluster
        pids = {name: child.pid for name, child in cluster.children.items() if child.pid and child.running}
        toxiproxy = cluster.toxiproxy_endpoint if cluster.toxiproxy is not None else ""
        context.write(
            cluster.data_dir,
            cluster.target,
            cluster.pair,
            pids,
            witness=cluster.witness_endpoint,
            toxiproxy=toxiproxy,
            credentials=cluster.credentials,
        )
        context.make_current(cluster.data_dir)

    def _greet(self) -> None:
        cluster = self._cluster
        members = ", ".join(f"{name} at {cluster.endpoint(name)}" for name in cluster.members)
        if cluster.credentials:
            say("dev", f"certificates are asked for; yours is found by itself: {cluster.credentials}")
        say("dev", f"ready: {members}")
        say("dev", "try: tandemq queue create orders; tandemq msg send orders hello; tandemq pair status")
        say("dev", f"hurt it: kill -9 {cluster.children[cluster.members[0]].pid}; Ctrl-C stops everything")

    async def _watch(self) -> None:
        while not self._stop_asked.is_set():
            for name, child in self._cluster.children.items():
                pid = child.pid or 0
                if not child.running and not self._busy.locked() and self._reported.get(name) != pid:
                    self._reported[name] = pid
                    restart = context.command_in(self._cluster.data_dir, "restart", name)
                    say("dev", f"{name} died ({child.ending}); restart with: {restart}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop_asked.wait(), WATCH_S)

    async def _on_question(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answer(json.loads(await reader.readline() or "{}"))
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError):
            pass  # who asked is gone, or does not speak JSON
        finally:
            writer.close()

    async def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        match question:
            case {"verb": "status"}:
                return {"ok": True, "processes": self._processes()}
            case {"verb": "stop"}:
                self._stop_asked.set()
                return {"ok": True}
            case {"verb": "restart", "name": str(name)} if name in self._cluster.children:
                return await self._restart(name)
            case {"verb": "restart", "name": name}:
                known = ", ".join(self._cluster.children)
                return {"ok": False, "message": f"no process is called {name}; there are {known}"}
            case _:
                return {"ok": False, "message": f"not understood: {question}"}

    async def _restart(self, name: str) -> dict[str, Any]:
        from chaos.cluster import ClusterError

        async with self._busy:
            if (problem := self._problem_of(name)) is not None:
                return {"ok": False, "message": problem}
            say("dev", f"restarting {name}")
            try:
                await self._cluster.restart(name)
            except ClusterError as error:
                say("dev", str(error))
                return {"ok": False, "message": str(error)}
            self._write_context()
        pid = self._cluster.children[name].pid
        say("dev", f"{name} runs again, pid {pid}")
        return {"ok": True, "pid": pid}

    def _problem_of(self, name: str) -> str | None:
        """Why a member would not start again with its configuration as it is: then one that runs is left alone."""
        from tandemq.config import ConfigError, load

        if name not in self._cluster.members:
            return None
        try:
            load(self._cluster.config_file(name))
        except ConfigError as error:
            return f"{error.message}; correct it and restart {name} then: nothing was done to it"
        return None

    def _processes(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "pid": child.pid, "running": child.running, "starts": child.starts, "state": child.state}
            for name, child in self._cluster.children.items()
        ]

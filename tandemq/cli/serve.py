"""Runs one manager or one witness until it is asked to stop; decides how that ends, never what the server does."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from tandemq.cli.failure import FAILED, Failure
from tandemq.cli.notifying import Notifier

if TYPE_CHECKING:
    from tandemq.cli.logs import JsonFormatter
    from tandemq.config import ManagerConfig

log = logging.getLogger("tandemq.cli")

_LEVELS = ("debug", "info", "warning", "error")

GIVE_UP_S = 5.0

COLLECTED_AFTER = (700, 10, 100)
"""Python's thresholds, but for the last one, which is 10. A look through everything stops the loop for 80 us a stream
that is open, and a herd that comes caused one after the other. What it finds, parts of streams that ended, can wait.
"""


class Server(Protocol):
    """A manager or a witness that has been started."""

    async def stop(self) -> None: ...


def process_options(command: click.decorators.FC) -> click.decorators.FC:
    options = (
        click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True),
        click.option("--log-format", type=click.Choice(["json", "plain"]), help="Default: plain on a terminal."),
        click.option("--until-stdin-closes", is_flag=True, hidden=True),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.option("--config", "file", metavar="FILE", help="Default: the user's tandemq.toml, then the system's.")
@click.option("--member", metavar="NAME", help="Name of this member.")
@click.option("--data-dir", metavar="DIR", help="Where it keeps everything.")
@click.option("--base-port", type=click.IntRange(1, 65000), help="Clients here, peer +1, HTTP +2, on 127.0.0.1.")
@click.option(
    "--listen",
    multiple=True,
    metavar="ADDRESS",
    help="Where clients connect: host:port, or unix:/path for this machine alone; once for each of the two.",
)
@click.option(
    "--restore-from",
    metavar="FILE|DIR",
    help="Fill the data directory, which must be empty, from a backup or a stopped member's directory first.",
)
@click.option("--insecure-network", is_flag=True, help="Allow listening beyond this machine, without encryption.")
@process_options
def serve(
    file: str | None,
    member: str | None,
    data_dir: str | None,
    base_port: int | None,
    listen: tuple[str, ...],
    restore_from: str | None,
    insecure_network: bool,
    log_level: str,
    log_format: str | None,
    until_stdin_closes: bool,
) -> None:
    """Run one queue manager until SIGTERM or Ctrl-C.

    Options win over TANDEMQ_SECTION_KEY variables, and these over the file. Without a pair in its configuration it is
    a single, unreplicated manager. It restores what its own data directory holds; with --restore-from, which needs an
    empty one, what another store holds.

    \b
    Example: tandemq serve --config a.toml
             tandemq serve --member solo --data-dir ./solo
             tandemq serve --member solo --data-dir ./solo --listen unix:/run/tandemq/solo.sock
             tandemq serve --config a.toml --restore-from orders.tqb
    """
    from tandemq.exposed import plain_ports, warn

    overrides: dict[str, Any] = {"member": member, "data_dir": data_dir and str(Path(data_dir).resolve())}
    if base_port is not None:
        from tandemq.config import member_ports

        client, peer, http = (f"127.0.0.1:{port}" for port in member_ports(base_port, 0))
        overrides |= {"listen_client": client, "listen_peer": peer, "listen_http": http}
    overrides |= _listening(listen)
    overrides["insecure_network"] = insecure_network or None
    config = load_config(file, {name: value for name, value in overrides.items() if value is not None})
    if not config.server_required:
        text = "manager.server_required = false opens no listener, so nobody could reach this process"
        raise Failure("CONFIG_ERROR", text, "use tandemq.embedded in the application, or set it to true")
    lines = _set_up_logs(config.member, log_level, log_format, config.pair)
    for port in plain_ports(config).values():
        warn(port)
    if restore_from is not None and Path(restore_from).resolve() != Path(config.data_dir).resolve():
        from tandemq.cli.backup import fill

        restored = fill(Path(config.data_dir), Path(restore_from), pair=config.pair, member=config.member)
        log.info("%s restored %d records from %s", config.member, restored["records"], restore_from)
    _run(_manager(config, lines), config.member, config.endpoint, until_stdin_closes=until_stdin_closes)


def _listening(addresses: tuple[str, ...]) -> dict[str, str]:
    """`--listen` as values of the configuration: a socket alone means no port for clients."""
    from tandemq.client.target import UNIX

    if not addresses:
        return {}
    paths = [address.removeprefix(UNIX) for address in addresses if address.startswith(UNIX)]
    ports = [address for address in addresses if not address.startswith(UNIX)]
    if len(paths) > 1 or len(ports) > 1:
        text = f"--listen {addresses[-1]}: at most one host:port and one unix:/path"
        raise Failure("CONFIG_ERROR", text, "leave the others away")
    return {"listen_client": ports[0] if ports else "", "listen_unix": paths[0] if paths else ""}


def serve_witness(
    listen: str,
    data_dir: str,
    log_level: str,
    log_format: str | None,
    *,
    insecure_network: bool,
    credentials: str,
    operators: tuple[str, ...],
    until_stdin_closes: bool,
) -> None:
    """Runs a witness until it is asked to stop."""
    from tandemq.config import ConfigError, check_exposure, parse_address
    from tandemq.exposed import is_exposed, warn

    try:
        may_be_reached = insecure_network or bool(credentials)
        check_exposure(parse_address(listen, "--listen"), "--listen", may_be_reached=may_be_reached)
        if problem := _problem_of_operators(operators, credentials):
            raise ConfigError(problem)
    except ConfigError as error:
        raise Failure(error.reason, error.message) from error
    _set_up_logs("witness", log_level, log_format)
    if not credentials and is_exposed(listen):
        warn(listen)
    directory = Path(data_dir).resolve()
    _run(_witness(listen, directory, credentials, operators), "witness", listen, until_stdin_closes=until_stdin_closes)


def _problem_of_operators(operators: tuple[str, ...], credentials: str) -> str:
    from tandemq.credentials import names

    if operators and not credentials:
        return "--operator names a client by its certificate, and a witness without --credentials sees none: give both"
    found = (names.problem_of(f"principal/{name}") for name in operators)
    return next((f"--operator {problem}" for problem in found if problem), "")


def load_config(file: str | None, overrides: dict[str, Any]) -> ManagerConfig:
    """As `tandemq.config.load`, with a wrong configuration as the command's failure."""
    from tandemq.config import ConfigError, find_file, load

    try:
        return load(find_file(file), overrides)
    except ConfigError as error:
        raise Failure(error.reason, error.message, "see `tandemq config check`") from error


def _set_up_logs(member: str, level: str, form: str | None, pair: str = "") -> JsonFormatter:
    from tandemq.cli.logs import set_up

    return set_up(member, level, as_json=form == "json" or (form is None and not sys.stderr.isatty()), pair=pair)


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """What is imported lives as long as the process: Python looks through it for garbage neither now nor later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


async def _manager(config: ManagerConfig, lines: JsonFormatter) -> Server:
    from tandemq.embedded import server_path

    server_path()
    with _loading():
        from replica.manager import Manager

    manager = Manager(config)
    lines.epoch_of = manager.epoch
    await manager.start()
    return manager


async def _witness(listen: str, data_dir: Path, credentials: str, operators: tuple[str, ...]) -> Server:
    from tandemq.embedded import server_path

    server_path()
    with _loading():
        from failover.witness import WitnessServer
        from failover.witness_store import DirectoryInUseError, StoreDamagedError

    shown = None
    if credentials:
        from tandemq.credentials.own import of_witness

        shown = of_witness(credentials)
    server = WitnessServer(listen, data_dir, credentials=shown, operators=operators)
    try:
        await server.start()
    except DirectoryInUseError as error:
        raise Failure("DIRECTORY_IN_USE", str(error), "stop that process, or choose another --data-dir") from error
    except StoreDamagedError as error:
        raise Failure(
            "CORRUPT_STORE", str(error), "keep the directory, and start an empty witness elsewhere"
        ) from error
    except OSError as error:
        if error.filename is not None:
            raise  # of its directory: no file has to do with the port
        raise Failure("PORT_IN_USE", str(error), "stop what listens there, or choose another --listen") from error
    return server


def _run(opening: Awaitable[Server], name: str, endpoint: str, *, until_stdin_closes: bool) -> None:
    from tandemq.config import ConfigError
    from tandemq.errors import TandemqError

    _take_descriptors()
    gc.set_threshold(*COLLECTED_AFTER)
    try:
        with _native_lines(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(opening, name, endpoint, until_stdin_closes=until_stdin_closes))
    except (TandemqError, ConfigError) as error:
        from tandemq.cli.session import NEXT_STEPS

        raise Failure(error.reason, error.message, NEXT_STEPS.get(error.reason, "")) from error
    except OSError as error:
        raise Failure("INTERNAL", str(error), "look at the file or address that it names") from error


def _native_lines() -> contextlib.AbstractContextManager[None]:
    """Lines of native code become records where the log is JSON."""
    from tandemq.cli.logs import JsonFormatter
    from tandemq.cli.stderr_lines import taken

    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and isinstance(handler.formatter, JsonFormatter):
            return taken(handler)
    return contextlib.nullcontext()


def _take_descriptors() -> None:
    from tandemq.edge.descriptors import LIMIT_WANTED, TooFewDescriptorsError, raise_limit

    try:
        raise_limit()
    except TooFewDescriptorsError as error:
        step = f"raise the hard limit: LimitNOFILE={LIMIT_WANTED} in the unit, or `ulimit -n {LIMIT_WANTED}`"
        raise Failure("CONFIG_ERROR", str(error), step) from error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where the extra is installed; None: the standard one."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(opening: Awaitable[Server], name: str, endpoint: str, *, until_stdin_closes: bool) -> None:
    stop_asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_asked.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _on_stdin, stop_asked)
    notifier = Notifier.take()
    server = await opening
    log.info("%s serves at %s", name, endpoint, extra={"pid": os.getpid()})
    # Ready is: it answers. A member that waits for its peer is as ready as it can be alone.
    notifier.say("READY=1", f"STATUS={name} serves at {endpoint}")
    beating = asyncio.ensure_future(notifier.beat())
    asked = asyncio.ensure_future(stop_asked.wait())
    gave_up = asyncio.ensure_future(_gives_up(server))
    try:
        await asyncio.wait({asked, gave_up}, return_when=asyncio.FIRST_COMPLETED)
        if gave_up.done():
            gave_up.result()
            raise Failure("INTERNAL", f"{name} gave up", "its last log lines say why")
    finally:
        log.info("%s stops", name)
        notifier.say("STOPPING=1")
        await _stop(server, name, gave_up=gave_up.done())
        for task in (asked, gave_up, beating):
            task.cancel()


async def _stop(server: Server, name: str, *, gave_up: bool) -> None:
    """In order; one that gave up may hang on the very disk that made it give up, and then ends without order."""
    try:
        await asyncio.wait_for(server.stop(), GIVE_UP_S if gave_up else None)
    except TimeoutError:
        log.error(
            "%s cannot stop in order within %g s, most likely for a disk that hangs: it ends now", name, GIVE_UP_S
        )
        logging.shutdown()
        os._exit(FAILED)


async def _gives_up(server: Server) -> None:
    """Returns, or raises what it died of, when the server ends without having been asked to."""
    if wait_closed := getattr(server, "wait_closed", None):
        await wait_closed()
    elif failed := getattr(server, "failed", None):
        await failed.wait()
    else:
        await asyncio.get_running_loop().create_future()


def _on_stdin(stop_asked: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop_asked.set()

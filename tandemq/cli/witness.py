"""Runs a witness, shows what it keeps, and puts a register right by an operator's word; never decides what it lets
through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tandemq.cli.failure import UNREACHABLE, Failure
from tandemq.cli.output import print_facts, print_json, print_rows, say
from tandemq.cli.params import confirm, credentials_option, output_option, timeout_option, yes_option
from tandemq.cli.serve import process_options, serve_witness

if TYPE_CHECKING:
    from tandemq.witness.v1 import witness_service_pb2 as pb
    from tandemq.witness.v1.witness_service_pb2_grpc import WitnessServiceAsyncStub

Answer = TypeVar("Answer")
Command = TypeVar("Command", bound=Callable[..., Any])

LISTEN = "127.0.0.1:7620"
STATES = MappingProxyType({0: "UNKNOWN", 1: "CLAIMED", 2: "COMMITTED"})
COLUMNS = ("pair", "domain", "epoch", "holder", "state", "in_sync_set", "committed_set", "version")


def _target_option(command: Command) -> Command:
    text = f"The witness. Default: the current context's, then {LISTEN}."
    return click.option("--target", metavar="HOST:PORT", help=text)(credentials_option(command))


@click.group(invoke_without_command=True)
@click.option("--listen", metavar="HOST:PORT", default=LISTEN, show_default=True)
@click.option("--data-dir", metavar="DIR", help="Where it keeps its registers. Needed to run one.")
@click.option("--insecure-network", is_flag=True, help="Allow listening beyond this machine, without encryption.")
@click.option("--credentials", metavar="DIR", default="", help="Its certificate; members and clients need theirs then.")
@click.option(
    "--operator", "operators", metavar="NAME", multiple=True, help="A client who may use set-epoch; repeatable."
)
@process_options
@click.pass_context
def witness(
    ctx: click.Context,
    listen: str,
    data_dir: str | None,
    insecure_network: bool,
    credentials: str,
    operators: tuple[str, ...],
    log_level: str,
    log_format: str | None,
    until_stdin_closes: bool,
) -> None:
    """Run a witness until SIGTERM or Ctrl-C. One serves many pairs and holds no messages.

    Put it on a third machine: it decides who goes on when the members lose sight of each other. The commands below
    ask one that runs.

    Example: tandemq witness --listen 127.0.0.1:7620 --data-dir ./witness
    """
    if ctx.invoked_subcommand is not None:
        return
    if data_dir is None:
        raise click.UsageError("say where the witness keeps its registers: --data-dir DIR", ctx)
    serve_witness(
        listen,
        data_dir,
        log_level,
        log_format,
        insecure_network=insecure_network,
        credentials=credentials,
        operators=operators,
        until_stdin_closes=until_stdin_closes,
    )


@witness.command()
@_target_option
@click.option("--pair", default="", help="Only of this pair. Default: all.")
@timeout_option("5s")
@output_option()
def status(target: str | None, pair: str, timeout_ms: int, output: str) -> None:
    """List what a witness keeps: who may be master of each domain, in which epoch, and whose copies are complete.

    A domain "start/MEMBER" counts the starts of a member.

    Example: tandemq witness status --target 127.0.0.1:7620
    """
    from tandemq.witness.v1 import witness_service_pb2 as pb

    endpoint = _endpoint(target)

    async def work(stub: WitnessServiceAsyncStub) -> pb.ListRegistersResponse:
        return await stub.ListRegisters(pb.ListRegistersRequest(pair=pair), timeout=timeout_ms / 1000)

    answer = _call(endpoint, work)
    rows = [{"pair": each.pair, "domain": each.domain, **_facts(each.register)} for each in answer.registers]
    if output == "json":
        facts = {"witness": endpoint, "version": answer.version, "register_count_max": answer.register_count_max}
        print_json({**facts, "registers": rows})
    else:
        print_rows(rows, "registers", output, COLUMNS)


@witness.command("set-epoch")
@_target_option
@click.option("--pair", required=True, help="Name of the pair.")
@click.option("--domain", default="main", show_default=True, help="Name of the domain.")
@click.option("--epoch", type=click.IntRange(min=1), required=True, help="Above every epoch that there was.")
@click.option("--holder", metavar="MEMBER", required=True, help="The one member that may be master next.")
@click.option("--reason", metavar="TEXT", required=True, help="Why, for the journal.")
@yes_option
@timeout_option("5s")
@output_option("table", "json")
def set_epoch(
    target: str | None,
    pair: str,
    domain: str,
    epoch: int,
    holder: str,
    reason: str,
    yes: bool,
    timeout_ms: int,
    output: str,
) -> None:
    """Replace a register by your word, when the witness lost it or came back from an old copy.

    Only the holder may become master then, in a higher epoch; the other member's copy counts as outdated until it has
    been brought up to date. Choose an epoch above every one that a member has had: `tandemq pair status` prints it.

    \b
    Example: tandemq witness set-epoch --pair orders --epoch 12 --holder a --reason "witness restored from a backup"
    """
    from tandemq.witness.v1 import witness_service_pb2 as pb

    endpoint = _endpoint(target)

    async def read(stub: WitnessServiceAsyncStub) -> pb.GetRegisterResponse:
        return await stub.GetRegister(pb.GetRegisterRequest(pair=pair, domain=domain), timeout=timeout_ms / 1000)

    before = _call(endpoint, read).register
    if output == "table":
        say(f"before: {_sentence(before)}", err=True)
    confirm(f"make {holder} the only member that may be master, of", f"{pair}/{domain}", yes=yes)
    request = pb.ForceRegisterRequest(
        pair=pair, domain=domain, expected_version=before.version, epoch=epoch, holder=holder, reason=reason
    )

    async def force(stub: WitnessServiceAsyncStub) -> pb.ForceRegisterResponse:
        return await stub.ForceRegister(request, timeout=timeout_ms / 1000)

    answer = _call(endpoint, force)
    if not answer.done:
        raise Failure("REFUSED", answer.refusal, "see `tandemq witness status`")
    if output == "json":
        print_json({"done": True, "before": _facts(before), "after": _facts(answer.register)})
    else:
        print_facts({"done": True, "after": _sentence(answer.register)}, output)


def _endpoint(target: str | None) -> str:
    from tandemq.cli import context
    from tandemq.cli.opening import keep_found
    from tandemq.config import ConfigError, parse_address

    if target is None:
        try:
            found = context.read(context.current_path())
            keep_found(str(found.get("credentials", "")))
            return str(found.get("witness") or LISTEN)
        except OSError:
            return LISTEN
    try:
        return str(parse_address(target, "--target"))
    except ConfigError as error:
        raise click.BadParameter(error.message, param_hint="--target") from error


def _call(endpoint: str, work: Callable[[WitnessServiceAsyncStub], Coroutine[Any, Any, Answer]]) -> Answer:
    import grpc
    import grpc.aio

    from tandemq.cli.opening import open_channel
    from tandemq.cli.session import failure_of
    from tandemq.cli.view import CHANNEL_OPTIONS
    from tandemq.errors import from_rpc_error
    from tandemq.witness.v1 import witness_service_pb2_grpc

    async def connected() -> Answer:
        async with open_channel(endpoint, options=CHANNEL_OPTIONS) as channel:
            return await work(witness_service_pb2_grpc.WitnessServiceStub(channel))

    try:
        return asyncio.run(connected())
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise Failure("UNIMPLEMENTED", f"{endpoint} is no witness, or an older one") from error
        failure = failure_of(from_rpc_error(error), endpoint)
        if failure.reason == "UNREACHABLE":
            text, step = f"no witness answers at {endpoint}", "start it with `tandemq witness`, or use --target"
            failure = Failure("UNREACHABLE", text, step, UNREACHABLE)
        raise failure from error


def _facts(register: pb.Register) -> dict[str, Any]:
    return {
        "version": register.version,
        "epoch": register.epoch,
        "holder": register.holder,
        "state": STATES.get(register.state, str(register.state)) if register.version else "NEW",
        "in_sync_set": list(register.in_sync_set),
        "committed_set": list(register.committed_set),
    }


def _sentence(register: pb.Register) -> str:
    if not register.version:
        return "never set"
    members = ", ".join(register.in_sync_set)
    state = STATES.get(register.state, "UNKNOWN").lower()
    return f"epoch {register.epoch} of {register.holder}, {state}, in sync {{{members}}}, version {register.version}"

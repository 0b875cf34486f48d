"""Has both members of a pair compare their records and shows what differs; it mends nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tandemq.cli.pair_call import call, choose, domain_option, finish, holds_role, look_at, member_option
from tandemq.cli.params import output_option, target_option, timeout_option

if TYPE_CHECKING:
    from tandemq.v1.pair_service_pb2 import VerifyResponse
    from tandemq.v1.pair_service_pb2_grpc import PairServiceAsyncStub


@click.command()
@target_option
@member_option
@domain_option
@click.option("--range", "range_records", type=click.IntRange(min=1), default=4096, help="Records in one comparison.")
@timeout_option("10m")
@output_option("table", "json", "jsonl")
def verify(
    target: str | None, member: str | None, domain: str, range_records: int, timeout_ms: int, output: str
) -> None:
    """Compare the records of both members, range by range, while they serve. Exit code 1 when something differs.

    Example: tandemq pair verify
    """
    from tandemq.cli.output import print_line
    from tandemq.v1 import pair_service_pb2 as pb

    asked = choose(look_at(target, timeout_ms), target, member, prefer=holds_role("MASTER", domain))
    facts: dict[str, Any] = {"domain": domain, "ranges": 0, "records": 0, "end_index": 0, "different": []}
    bar = _Bar(visible=output == "table" and sys.stderr.isatty())

    async def work(stub: PairServiceAsyncStub) -> None:
        request = pb.VerifyRequest(domain=domain, range_records=range_records)
        async for answer in stub.Verify(request, timeout=timeout_ms / 1000):
            _count(facts, answer)
            bar.show(answer.last_index, answer.end_index)
            if output == "jsonl" and not answer.last:
                print_line(_range(answer))

    try:
        call(asked.endpoint, timeout_ms + 500, work)
    finally:
        bar.close()
    different = facts["different"]
    equal = not different
    facts["text"] = (
        f"both members hold the same {facts['records']:,} records"
        if equal
        else f"{len(different)} of {facts['ranges']} ranges differ: "
        + "; ".join(f"{each['first_index']} to {each['last_index']} {each['difference']}".strip() for each in different)
    )
    next_step = "`tandemq pair resync --full` copies the master's state anew; find out first which copy is right"
    finish({"equal": equal, **facts}, output, done=equal, reason="DIGEST_MISMATCH", next_step=next_step)


class _Bar:
    """A progress bar on a terminal's stderr."""

    def __init__(self, *, visible: bool) -> None:
        self._progress: Any = None
        self._task: Any = None
        if visible:
            from rich.progress import Progress

            from tandemq.cli.output import console

            self._progress = Progress(console=console(stderr=True), transient=True)
            self._task = self._progress.add_task("comparing", total=None)
            self._progress.start()

    def show(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress.update(self._task, completed=done, total=total or None)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


def _range(answer: VerifyResponse) -> dict[str, Any]:
    return {
        "first_index": answer.first_index,
        "last_index": answer.last_index,
        "records": answer.records,
        "equal": answer.equal,
        "difference": answer.difference,
    }


def _count(facts: dict[str, Any], answer: VerifyResponse) -> None:
    facts["end_index"] = max(facts["end_index"], answer.end_index)
    if not answer.last:  # the last answer sums up
        facts["ranges"] += 1
        facts["records"] += answer.records
    if not answer.equal and (not answer.last or not facts["different"]):
        facts["different"].append(_range(answer))

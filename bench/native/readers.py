"""Reads what each load tool prints about itself. Pure; each raises UnreadableError rather than guess."""

from __future__ import annotations

import itertools
import json
import re

from bench.native.outcome import Outcome, UnreadableError

PERF_TEST = re.compile(r"\btime (?P<time>[\d.]+) s(?P<rest>, .*)$", re.MULTILINE)
PERF_TEST_RATE = re.compile(r", (?P<name>sent|confirmed|nacked|returned|received): (?P<rate>[\d,]+) msg/s")
ESCAPES = re.compile(r"\x1b\[[\d;]*m")


def perf_test(text: str, counted: str, warm_s: float) -> Outcome:
    """RabbitMQ's PerfTest: a line a second of rates since the line before. `counted` is "confirmed" or "received".

    Its summary has averages over the start of its virtual machine too, so the lines are added up, without those of the
    first `warm_s`. What came after its last line it does not tell: up to as much as in that line.
    """
    lines: list[tuple[float, dict[str, int]]] = []
    for found in PERF_TEST.finditer(ESCAPES.sub("", text)):
        rates = {each["name"]: int(each["rate"].replace(",", "")) for each in PERF_TEST_RATE.finditer(found["rest"])}
        lines.append((float(found["time"]), rates))
    if "confirmed" not in {name for _, rates in lines for name in rates}:
        raise UnreadableError("PerfTest tells of no confirms")
    if any(rates.get("nacked") or rates.get("returned") for _, rates in lines):
        raise UnreadableError("PerfTest tells of messages that were refused")
    before, totals = 0.0, {"confirmed": 0.0, "received": 0.0}
    messages = seconds = 0.0
    for at, rates in lines:
        if at <= before:
            raise UnreadableError(f"PerfTest's time goes from {before} s to {at} s")
        took = at - before
        for name in totals:
            totals[name] += rates.get(name, 0) * took
        if before >= warm_s:
            messages, seconds = messages + rates.get(counted, 0) * took, seconds + took
        before = at
    if not messages:
        raise UnreadableError(f"PerfTest tells of no message {counted} after the first {warm_s:g} s")
    untold = round(rates.get("received", 0) * took)
    return Outcome(round(messages), seconds, round(totals["confirmed"]), round(totals["received"]), untold)


PGBENCH = {
    "done": re.compile(r"^number of transactions actually processed: (\d+)(?:/\d+)?$", re.MULTILINE),
    "failed": re.compile(r"^number of failed transactions: (\d+) ", re.MULTILINE),
    "tps": re.compile(r"^tps = ([\d.]+) \(without initial connection time\)$", re.MULTILINE),
}


def pgbench(text: str) -> Outcome:
    """PostgreSQL's pgbench: a transaction is one run of the script."""
    found = {name: pattern.search(text) for name, pattern in PGBENCH.items()}
    if lacking := [name for name, match in found.items() if match is None]:
        raise UnreadableError(f"pgbench does not tell: {', '.join(lacking)}")
    done, failed, tps = (float(match[1]) for match in found.values() if match)
    if failed or "aborted" in text:
        raise UnreadableError(f"pgbench tells of {failed:.0f} failed transactions or of clients that gave up")
    if not done or not tps:
        raise UnreadableError("pgbench tells of no transaction")
    return Outcome(round(done), done / tps, round(done))


def redis_benchmark(text: str, asked: int) -> Outcome:
    """redis-benchmark: "N requests completed in S seconds"; errors are told on lines of their own."""
    if re.search(r"^(?:Error|ERR|WARNING: could not)", text, re.MULTILINE) or "-ERR" in text:
        raise UnreadableError("redis-benchmark tells of errors")
    found = re.search(r"^\s*(\d+) requests completed in ([\d.]+) seconds$", text.replace("\r", "\n"), re.MULTILINE)
    if not found or float(found[2]) <= 0:
        raise UnreadableError("redis-benchmark does not tell how many requests were completed and when")
    if int(found[1]) != asked:
        raise UnreadableError(f"redis-benchmark completed {found[1]} requests of {asked}")
    return Outcome(asked, float(found[2]), asked)


NATS_BENCH = re.compile(r"^NATS JetStream .* stats: ([\d,]+) msgs/sec ", re.MULTILINE)
NATS_ASKED = re.compile(r" Starting JetStream .*[ \[]msgs=([\d,]+)[,\]]")


def nats_bench(text: str, asked: int) -> Outcome:
    """`nats bench js` with one client: it tells the rate of as many messages as it was asked for."""
    if re.search(r"\berror\b", text, re.IGNORECASE):
        raise UnreadableError("nats bench tells of errors")
    begun, rates = NATS_ASKED.search(text), NATS_BENCH.findall(text)
    if not begun or len(rates) != 1:
        raise UnreadableError(f"nats bench tells {len(rates)} rates, not one")
    count, rate = int(begun[1].replace(",", "")), int(rates[0].replace(",", ""))
    if count != asked or not rate:
        raise UnreadableError(f"nats bench tells of {count} messages at {rate}/s, and was asked for {asked}")
    return Outcome(count, count / rate, count)


def artemis_perf(text: str, counted: str) -> Outcome:
    """The report of `artemis perf`, a JSON list: samples, each of what was `completed` or `received` since the one
    before, and a summary of all, the warm-up too. The very first sample is not counted: nobody knows since when.
    """
    try:
        entries = json.loads(text)
        summaries = [each for each in entries if each["sampleType"] == "summary"]
        samples = [each for each in entries if each["sampleType"] == "interval"]
        measured = [(last, each) for last, each in itertools.pairwise(samples) if not each["warmup"]]
        (summary,) = summaries
        if summary["result"] != "success":
            raise UnreadableError(f"artemis perf tells of a {summary['result']}")
        messages = sum(int(each[counted]) for _, each in measured)
        seconds = sum(each["time"] - last["time"] for last, each in measured) / 1000
        sent, received = int(summary["totalCompleted"]), int(summary.get("totalReceived", 0))
    except (ValueError, KeyError, TypeError, IndexError) as failure:
        raise UnreadableError(f"the report of artemis perf is not understood: {failure!r}") from None
    if not messages or seconds <= 0:
        raise UnreadableError(f"artemis perf tells of no message {counted} between its samples")
    return Outcome(messages, seconds, sent, received)

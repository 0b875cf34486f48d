"""Every load tool, by the name of its peer. beanstalkd has none."""

from __future__ import annotations

from bench.native.artemis import ArtemisPerf
from bench.native.nats import NatsBench
from bench.native.postgres import Pgbench, PgbenchOlder
from bench.native.rabbitmq import PerfTest, PerfTestOlder, PerfTestSingle, PerfTestSingleOlder
from bench.native.redis import RedisBenchmark, RedisBenchmarkOlder, ValkeyBenchmark
from bench.native.tool import Tool

KINDS: tuple[type[Tool], ...] = (
    PerfTest, PerfTestOlder, PerfTestSingle, PerfTestSingleOlder, NatsBench, Pgbench, PgbenchOlder, RedisBenchmark,
    RedisBenchmarkOlder, ValkeyBenchmark, ArtemisPerf,
)  # fmt: skip
TOOLS: dict[str, type[Tool]] = {tool.peer: tool for tool in KINDS}

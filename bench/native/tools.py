"""Every load tool, by the name of its peer. beanstalkd has none."""

from __future__ import annotations

from bench.native.artemis import ArtemisPerf
from bench.native.nats import NatsBench
from bench.native.postgres import Pgbench
from bench.native.rabbitmq import PerfTest, PerfTestSingle
from bench.native.redis import RedisBenchmark
from bench.native.tool import Tool

KINDS: tuple[type[Tool], ...] = (PerfTest, PerfTestSingle, NatsBench, Pgbench, RedisBenchmark, ArtemisPerf)
TOOLS: dict[str, type[Tool]] = {tool.peer: tool for tool in KINDS}

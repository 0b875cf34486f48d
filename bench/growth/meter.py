"""Processor time of other processes, to the nanosecond: the counter from which /proc/<pid>/stat takes its ticks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

CPUCLOCK_SCHED = 2  # of include/linux/posix-timers_types.h: time on a processor, of all threads, ended ones included
REST_LOOK_S = 0.05
REST_SHARE = 0.15  # of one core, both members together: they do nothing but beat
REST_S = 60.0  # a checkpoint of ten million messages and the journal's end are behind by then


def cpu_us(pid: int) -> float:
    """User and system time of a process so far. Raises OSError when it is gone."""
    return time.clock_gettime_ns(((~pid) << 3) | CPUCLOCK_SCHED) / 1e3


class Meter:
    """What the processes of each role have used."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)

    def read(self) -> dict[str, float]:
        return {role: cpu_us(pid) for role, pid in self._pids.items()}

    async def rest(self) -> float:
        """Until the members have done what a turn left them to do, checkpoints above all; how long that took.

        What they use meanwhile belongs to the turn. Raises TimeoutError when they do not come to rest.
        """
        began, before = time.perf_counter(), sum(self.read().values())
        while True:
            await asyncio.sleep(REST_LOOK_S)
            after = sum(self.read().values())
            if after - before < REST_SHARE * REST_LOOK_S * 1e6:
                return time.perf_counter() - began
            if time.perf_counter() - began > REST_S:
                raise TimeoutError("the members did not come to rest after a turn")
            before = after

"""Families of the process and its event loop, with the names that Prometheus clients use."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ruslo.broker.metrics import catalog
from ruslo.broker.metrics.exposition import Family, histogram_samples, single

if TYPE_CHECKING:
    from ruslo.broker.metrics.loop_watch import LoopWatch

SECOND_NS = 1e9
_PAGE_BYTES = resource.getpagesize()
_STARTED_AT, _VIRTUAL_AT, _RESIDENT_AT = 19, 20, 21
"""Fields of /proc/self/stat, counted from the one after the command name."""


def loop_families(watch: LoopWatch) -> Iterator[Family]:
    yield Family(catalog.STALLS, list(histogram_samples(watch.stalls, {}, SECOND_NS)))
    yield single(catalog.LONGEST_STALL, watch.longest_stall_ns / SECOND_NS)
    yield single(catalog.LOOP_BUSY, watch.busy_ns / SECOND_NS)
    yield single(catalog.IDLE_SHARE, round(watch.idle_share, 4))


def process_families() -> Iterator[Family]:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    times = os.times()
    yield single(catalog.PROCESS_CPU, round(times.user + times.system, 2))
    yield single(catalog.PROCESS_MEMORY, int(fields[_RESIDENT_AT]) * _PAGE_BYTES)
    yield single(catalog.PROCESS_VIRTUAL, int(fields[_VIRTUAL_AT]))
    yield single(catalog.PROCESS_START, _boot_s() + int(fields[_STARTED_AT]) / os.sysconf("SC_CLK_TCK"))
    yield single(catalog.OPEN_FILES, len(os.listdir("/proc/self/fd")))
    yield single(catalog.MAX_OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _boot_s() -> int:
    """Return the boot time of the system, in Unix time."""
    lines = Path("/proc/stat").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("btime ")))

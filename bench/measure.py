"""What a benchmark reads off the machine: processor time and memory of processes, and a warm page cache."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
GB = 1_000_000_000
MB = 1_000_000


def _family(pid: int) -> list[int]:
    """The process and its descendants, so that helper processes of a broker are counted as its own."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
                continue
            children.setdefault(parent, []).append(int(entry.name))
    family = [pid]
    for member in family:
        family.extend(children.get(member, []))
    return family


def cpu_s(pid: int) -> float:
    """User and system time that the broker has used so far."""
    ticks = 0
    for member in _family(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / CLOCK_TICKS_PER_S


def resident_mb(pid: int) -> float:
    """Resident memory of the broker."""
    total_kb = 0
    for member in _family(pid):
        for line in Path(f"/proc/{member}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total_kb += int(line.split()[1])
    return total_kb * 1024 / MB


def available_memory_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/meminfo has no MemAvailable line")


def warm_page_cache(folder: Path, wanted_bytes: int) -> tuple[int, float]:
    """Write and delete a big file; returns its size and the seconds it took.

    The first touch of memory is expensive on virtual machines. Without this, whichever broker runs first pays
    for the pages that the second one then finds ready.
    """
    size = min(wanted_bytes, available_memory_bytes() - 4 * GB, shutil.disk_usage(folder).free // 2)
    block = b"\xa5" * (8 << 20)
    path = folder / "page-cache-warm-up"
    start = time.monotonic()
    written = 0
    try:
        with path.open("wb", buffering=0) as file:
            while written < size:
                written += file.write(block)
    finally:
        path.unlink(missing_ok=True)
    return written, time.monotonic() - start

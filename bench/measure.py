"""CPU time and memory of processes, and how a benchmark warms up the memory of the machine."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
GB = 1_000_000_000
MB = 1_000_000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LEFT_FREE_BYTES = 3 * GB


def _family(pid: int) -> list[int]:
    """The process and its descendants, so that helper processes of a broker are counted as its own."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):  # It has ended meanwhile.
                continue
            children.setdefault(parent, []).append(int(entry.name))
    family = [pid]
    for member in family:
        family.extend(children.get(member, []))
    return family


def cpu_s(pid: int) -> float:
    """Return the user and system time of the broker so far."""
    ticks = 0
    for member in _family(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / CLOCK_TICKS_PER_S


def exact_cpu_s(pid: int) -> float:
    """Return the CPU time of the broker's own threads to the nanosecond; ``cpu_s`` counts ticks of 10 ms."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total_ns += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):  # The thread has ended meanwhile.
            continue
    return total_ns / 1e9


def cleaner_cpu_s(pid: int) -> float:
    """Return the CPU time of compaction so far: Kafka's cleaner thread, or Ruslo's cleaner process."""
    ticks = 0
    for member in _family(pid):
        is_cleaner = b"ruslo.storage.cleaner" in Path(f"/proc/{member}/cmdline").read_bytes()
        for task in Path(f"/proc/{member}/task").iterdir():
            try:
                head, _, rest = (task / "stat").read_text().rpartition(")")
            except (FileNotFoundError, ProcessLookupError):  # The thread has ended meanwhile.
                continue
            if is_cleaner or "(kafka-log-clean" in head:
                fields = rest.split()
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


def warm_memory(wanted_bytes: int) -> None:
    """Touch memory and free it, so that the next allocation gets pages that have been touched before.

    A virtual machine gives free pages back to its host after some seconds, and the first touch of a page
    that went back costs a multiple of what a broker does with it. What earlier work left to be written to
    disk is written first: a full backlog slows down the next writer.
    """
    os.sync()
    room = max(0, available_memory_bytes() - LEFT_FREE_BYTES)
    with mmap.mmap(-1, max(PAGE_BYTES, min(wanted_bytes, room))) as memory:
        for offset in range(0, len(memory), PAGE_BYTES):
            memory[offset] = 1

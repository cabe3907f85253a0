"""What a benchmark reads off the machine: processor time and memory of processes, and a warm page cache."""

from __future__ import annotations

import os
import shutil
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


def cleaner_cpu_s(pid: int) -> float:
    """What compaction has used so far: Kafka's cleaner thread, or the cleaner process Ruslo has started."""
    ticks = 0
    for member in _family(pid):
        is_cleaner = b"ruslo.storage.cleaner" in Path(f"/proc/{member}/cmdline").read_bytes()
        for task in Path(f"/proc/{member}/task").iterdir():
            try:
                head, _, rest = (task / "stat").read_text().rpartition(")")
            except (FileNotFoundError, ProcessLookupError):  # the thread ended while we looked
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


class PageCacheFill:
    """A big file that is kept in the page cache, so that brokers find memory that has been touched before.

    The first touch of memory is expensive on virtual machines, and a page that is freed may go back to the
    host. With memory full of a file that can be dropped, new pages come from there, for every broker alike.
    """

    BLOCK_BYTES = 8 << 20
    LEFT_FREE_BYTES = 3 * GB

    def __init__(self, folder: Path, wanted_bytes: int) -> None:
        self._path = folder / "page-cache-fill"
        room = min(available_memory_bytes() - self.LEFT_FREE_BYTES, shutil.disk_usage(folder).free // 2)
        self.size = min(wanted_bytes, room)
        block = b"\xa5" * self.BLOCK_BYTES
        with self._path.open("wb", buffering=0) as file:
            for _ in range(self.size // self.BLOCK_BYTES):
                file.write(block)
            os.fsync(file.fileno())

    def refill(self) -> None:
        """Read it all again: what the last broker left behind was deleted, and its memory is free."""
        with self._path.open("rb", buffering=0) as file:
            while file.read(self.BLOCK_BYTES):
                pass

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

"""A host with a disk and a network address, and the node that runs on it, repeatedly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ruslo.broker.node.node import Node
from ruslo.broker.partitions.cleaner_process import CleanerDied
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.broker import BrokerConfig
from ruslo.model.errors import RusloError
from ruslo.model.ids import Uuid
from ruslo.storage.cleaner.round import run_round
from ruslo.storage.cleaner.task import CleanTask, Report
from ruslo.storage.disk import Disk
from ruslo.testing.simulation.disk import MemoryDisk
from ruslo.testing.simulation.nodes.network import SimNetwork
from ruslo.testing.simulation.nodes.process_loop import ProcessClock, ProcessLoop
from ruslo.testing.simulation.slice_clock import SliceClock

RESTART_DELAY_MS = 300
"""The delay after which a service manager restarts a process that ended by itself."""


@dataclass(eq=False)
class SimHost:
    config: BrokerConfig
    directory_id: Uuid
    address: str
    network: SimNetwork
    _on_step: Callable[[SimHost], None]

    def __post_init__(self) -> None:
        self.id = self.config.node_id
        self.disk = MemoryDisk(self.network.clock, self.config.log_dirs[0])
        self.local_clock = ProcessClock(self.network.clock)
        self.slow_disk_ms = 0
        """Disk operations take up to this much longer."""
        self.incarnations = 0
        """How often the node was started; state of an earlier incarnation is another node's state."""
        self.process: ProcessLoop | None = None
        self.node: Node | None = None
        self.ready = False
        """Whether the start is complete."""
        self.data_lost = False
        """The host has lost unsynced data and may not have recovered it yet."""
        self.page_cache_lost = False
        """The host has lost unsynced data and has not been up since."""
        self.ends: list[str] = []
        """The reasons why processes ended by themselves."""
        self._dead_processes: list[ProcessLoop] = []

    @property
    def is_up(self) -> bool:
        return self.process is not None

    # -- faults ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.process is not None:
            return
        self.network.host_is_back(self.address)
        self.incarnations += 1
        loop = ProcessLoop(self.network, self.address, self.local_clock, lambda: self._on_step(self))
        loop.disk_ms = self._disk_ms
        self.process = loop
        self.ready = False
        loop.call_soon(lambda: loop.create_task(self._live(loop)))

    def kill(self) -> None:
        """kill -9: written data stays in the page cache."""
        process = self._end()
        if process is not None:
            self.network.process_died(process)

    def lose_power(self) -> None:
        """Unsynced data is lost, at least in part, and connections are not closed."""
        process = self._end()
        if process is not None:
            self.network.host_died(process)
            self.disk.lose_power(self.network.clock.random, self.disk.directory)
            self.data_lost = self.page_cache_lost = True

    def pause(self) -> None:
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        if self.process is not None and self.process.paused:
            self.process.resume()

    def stop(self) -> None:
        """SIGTERM."""
        if self.node is not None:
            self.node.request_stop()

    # -- lifecycle -------------------------------------------------------------------------------------------

    async def _live(self, loop: ProcessLoop) -> None:
        reason = "the node was stopped"
        try:
            node = self.node = Node(
                self.config,
                self.local_clock,
                lambda path: self.disk,
                lambda: SimCleaner(self.disk),
                Scheduler(SliceClock(self.local_clock, self.network.clock.random)),
                self.network.clock.random,
            )
            await node.start()
            self.ready = True
            self.page_cache_lost = False
            await node.wait_for_stop()
            reason = node.failure or reason
            await node.stop()
        except RusloError as error:
            reason = str(error)
        if self.process is loop:
            self.ends.append(reason)
            self.kill()
            self.network.clock.call_later(RESTART_DELAY_MS, self.start)

    def _end(self) -> ProcessLoop | None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            self._dead_processes.append(process)
            self.disk.release_locks()
        self.node = None
        self.ready = False
        return process

    def _disk_ms(self) -> int:
        return self.network.clock.random.randint(0, 1 + self.slow_disk_ms)


class SimCleaner:
    """Compaction without a process: it is done when it begins, and its reports are received one by one.

    Each segment is swapped in at its own time, so the node may die between any two of them.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._reports: deque[Report] = deque()

    def send(self, task: CleanTask) -> None:
        self.stop()
        run_round(self._disk, task, self._reports.append)

    def receive(self) -> Report:
        if not self._reports:
            raise CleanerDied("the cleaner process was stopped")
        report = self._reports.popleft()
        if report.done is not None:
            # The log line has the duration: real time would make two runs of a seed differ.
            report.done.seconds = 0.0
        return report

    def stop(self) -> None:
        self._reports.clear()

    kill = raise_priority = stop

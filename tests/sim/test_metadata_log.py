"""Many runs of one node's metadata log, each crashed at a random moment; every seed is a different run.

Invariants, checked after every crash: acknowledged records survive; the log is a prefix of what was appended,
with whole transactions; the epoch increases; the listener gets the same from the log and from a snapshot.
"""

from __future__ import annotations

import contextlib
import random
from itertools import chain
from pathlib import Path

import pytest

from ruslo.model.errors import KafkaError, StorageError
from ruslo.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from ruslo.storage.disk import DiskError
from ruslo.testing.sim_disk import SimDisk
from tests.support.brokers.metadata_log import MetadataNode, topic, until

CRASHES = 12


class CrashRun:
    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.random = random.Random(seed)
        self.limits = {
            "metadata.log.max.record.bytes.between.snapshots": str(self.random.choice([200, 1_000, 10**6])),
            "metadata.max.retention.bytes": str(self.random.choice([1, 2_000, -1])),
            # A segment for each batch or two, or one for all.
            "metadata.log.segment.ms": str(self.random.choice([1, 10**9])),
        }
        self.steps: list[list[str]] = []
        """The topics of each step, in the order of their appends."""
        self.acked = 0
        """The number of steps that are known to be committed."""
        self.epoch = 0

    async def run_until_crash(self) -> None:
        fails_at = self.random.randrange(120)
        disk = SimDisk(str(self.directory), fails_at, seed=self.random.getrandbits(32))
        node = MetadataNode(self.directory, self.limits, disk=disk, take_snapshots=True)
        with contextlib.suppress(StorageError, KafkaError):
            try:
                await node.start()
                self.check(node)
                while not node.failures and not disk.medium.dead:
                    await self.step(node)
            finally:
                with contextlib.suppress(DiskError):
                    await node.driver.stop()
        if self.random.random() < 0.5:
            disk.medium.lose_power()

    def check(self, node: MetadataNode) -> None:
        assert node.driver.epoch > self.epoch
        self.epoch = node.driver.epoch
        found = node.listener.names
        count = len(self.steps)
        while count > self.acked and list(chain(*self.steps[:count])) != found:
            count -= 1
        assert list(chain(*self.steps[:count])) == found
        # Steps that did not survive never happened; those that did are now committed.
        self.steps = self.steps[:count]
        self.acked = count

    async def step(self, node: MetadataNode) -> None:
        number = len(self.steps)
        names = [f"{number}-{index}" for index in range(self.random.randint(1, 4))]
        self.steps.append(names)
        records = [topic(name) for name in names]
        match self.random.randrange(3):
            case 0:
                offset = node.append(*records)
            case 1:
                offset = node.append((BeginTransactionRecord(), 0), *records, (EndTransactionRecord(), 0))
            case _:
                node.append((BeginTransactionRecord(), 0))
                for record in records:
                    node.append(record)
                offset = node.append((EndTransactionRecord(), 0))
        if self.random.random() < 0.7:
            await until(lambda: node.driver.applied.offset > offset or bool(node.failures))
            if not node.failures:
                self.acked = len(self.steps)


@pytest.mark.parametrize("seed", range(25))
async def test_log_survives_crashes(tmp_path: Path, seed: int) -> None:
    run = CrashRun(tmp_path, seed)
    for _ in range(CRASHES):
        await run.run_until_crash()
    disk = SimDisk(str(tmp_path))
    node = MetadataNode(tmp_path, run.limits, disk=disk)
    await node.start()
    run.check(node)
    await node.driver.stop()

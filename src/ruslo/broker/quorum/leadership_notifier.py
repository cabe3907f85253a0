"""Notifies the listeners of leader changes of the metadata log.

A node is notified of its own leadership only when every record before its epoch has been delivered and no
transaction of its predecessor is open: then it may decide. While it leads and is followed, it also writes
NoOp records, which show the followers that it is alive (``no_op_writer.py``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ruslo.broker.quorum.commit_feed import CommitFeed
from ruslo.broker.quorum.metadata_batches import VersionedRecord
from ruslo.broker.quorum.no_op_writer import NoOpWriter
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.abort_transaction_record import AbortTransactionRecord
from ruslo.protocol.messages.no_op_record import NoOpRecord

logger = logging.getLogger(__name__)


class LeadershipNotifier:
    def __init__(
        self,
        machine: RaftMachine,
        feed: CommitFeed,
        append: Callable[[int, Sequence[VersionedRecord]], int],
        *,
        no_op_interval_ms: int,
    ) -> None:
        self.notified: tuple[int, int] | None = None
        """The leader and epoch of the last notification."""
        self.has_notified = asyncio.Event()
        """Set from the first notification on, and when there will be none."""
        self._machine = machine
        self._feed = feed
        self._append = append
        self._no_ops = NoOpWriter(no_op_interval_ms, self._write_no_op)
        self._aborting_epoch = -1

    def update(self) -> None:
        """Called after every event: notify of what has changed."""
        machine = self._machine
        if machine.leader_id != machine.node_id:
            self._no_ops.stop()
            self._notify(machine.leader_id)
        elif self.notified == (machine.node_id, machine.epoch):
            return
        elif self._feed.applied.offset <= machine.epoch_start_offset:
            self._notify(NO_NODE)
        elif self._feed.in_transaction:
            self._abort_transaction()
        else:
            end_offset = machine.log.end_offset
            logger.info("leading the metadata log in epoch %d, up to offset %d", machine.epoch, end_offset)
            self._no_ops.start()
            self._notify(machine.node_id)

    def appended(self) -> None:
        self._no_ops.appended()

    def stop(self) -> None:
        self.has_notified.set()
        self._no_ops.stop()
        self._notify(NO_NODE)

    def _notify(self, leader_id: int) -> None:
        current = (leader_id, self._machine.epoch)
        if self.notified == current or (self.notified is None and leader_id == NO_NODE):
            return
        self.notified = current
        self.has_notified.set()
        self._feed.leader_changed(*current)

    def _abort_transaction(self) -> None:
        """The predecessor that began it cannot end it any more (KIP-868)."""
        epoch = self._machine.epoch
        if self._aborting_epoch != epoch:
            self._aborting_epoch = epoch
            self._append(epoch, [(AbortTransactionRecord(reason="the controller changed"), 0)])

    def _write_no_op(self) -> None:
        machine = self._machine
        followed = len(machine.voters.voters) > 1 or bool(machine.replicas)
        if followed and machine.leads(machine.epoch):
            try:
                self._append(machine.epoch, [(NoOpRecord(), 0)])
            except KafkaError as error:
                logger.warning("failed to append a NoOp record to the metadata log: %s", error)

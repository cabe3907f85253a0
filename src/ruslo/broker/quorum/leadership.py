"""Tells the listeners who leads the metadata log.

Of its own leadership a node hears only when it has been given every record from before its epoch and no
transaction of its predecessor is open: then it may decide. While it leads, and is followed, it also lets the
others know that it is alive (``idle.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ruslo.broker.quorum.commit_feed import CommitFeed
from ruslo.broker.quorum.metadata_batches import VersionedRecord
from ruslo.broker.quorum.no_op_records import IdleRecords
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.abort_transaction_record import AbortTransactionRecord
from ruslo.protocol.messages.no_op_record import NoOpRecord

logger = logging.getLogger(__name__)


class LeadershipNews:
    def __init__(
        self,
        machine: RaftMachine,
        feed: CommitFeed,
        append: Callable[[int, Sequence[VersionedRecord]], int],
        *,
        idle_interval_ms: int,
    ) -> None:
        self.told: tuple[int, int] | None = None
        """Leader and epoch, as the listeners know them."""
        self._machine = machine
        self._feed = feed
        self._append = append
        self._idle = IdleRecords(idle_interval_ms, self._write_idle_record)
        self._aborting_epoch = -1

    def update(self) -> None:
        """After every event: tell what has changed."""
        machine = self._machine
        if machine.leader_id != machine.node_id:
            self._idle.stop()
            self._tell(machine.leader_id)
        elif self.told == (machine.node_id, machine.epoch):
            return
        elif self._feed.applied.offset <= machine.epoch_start_offset:
            self._tell(NO_NODE)
        elif self._feed.in_transaction:
            self._abort_transaction()
        else:
            end_offset = machine.log.end_offset
            logger.info("leading the metadata log in epoch %d, up to offset %d", machine.epoch, end_offset)
            self._idle.start()
            self._tell(machine.node_id)

    def appended(self) -> None:
        self._idle.appended()

    def stop(self) -> None:
        self._idle.stop()
        self._tell(NO_NODE)

    def _tell(self, leader_id: int) -> None:
        told = (leader_id, self._machine.epoch)
        if self.told == told or (self.told is None and leader_id == NO_NODE):
            return
        self.told = told
        self._feed.leader_changed(*told)

    def _abort_transaction(self) -> None:
        """Its writer is gone, and nobody else may end it (KIP-868)."""
        epoch = self._machine.epoch
        if self._aborting_epoch != epoch:
            self._aborting_epoch = epoch
            self._append(epoch, [(AbortTransactionRecord(reason="the controller changed"), 0)])

    def _write_idle_record(self) -> None:
        machine = self._machine
        followed = len(machine.voters.voters) > 1 or bool(machine.replicas)
        if followed and machine.leads(machine.epoch):
            try:
                self._append(machine.epoch, [(NoOpRecord(), 0)])
            except KafkaError as error:
                logger.warning("the metadata log took no empty record: %s", error)

"""A bench for the share coordinator's shard: its log is a list of encoded records."""

from __future__ import annotations

from typing import Any

from ruslo.broker.coordinators.runtime.record_codec import encode_batch
from ruslo.broker.coordinators.share.kind import ShareRecordCodec
from ruslo.machines.machine import AppendCommitted, AppendFailed, Loaded, Unloaded
from ruslo.machines.share_coordinator.events import PruneLog, ShareOutcome, TopicsDeleted
from ruslo.machines.share_coordinator.records import ShareRecord
from ruslo.machines.share_coordinator.responses import error_response
from ruslo.machines.share_coordinator.shard import ShareCoordinatorShard
from ruslo.machines.share_coordinator.state import ShareCoordinatorSettings
from ruslo.model.ids import Uuid
from ruslo.protocol.message import Message
from ruslo.records.batch import read_header
from tests.support.machines.coordinator_bench import CoordinatorBench
from tests.support.share.state_requests import TOPIC


class ShareCoordinatorBench(CoordinatorBench):
    shard: ShareCoordinatorShard

    def __init__(self, settings: ShareCoordinatorSettings | None = None) -> None:
        super().__init__(error_response)
        self.settings = settings or ShareCoordinatorSettings()
        self.topics: set[Uuid] = {TOPIC}
        self.partition_count = 2_000
        self.log: list[ShareRecord] = []
        self.log_start = 0
        self._codec = ShareRecordCodec()
        self.shard = self._new_shard()
        self.run(Loaded(7))

    def call(self, request: Message, version: int | None = None) -> Any:
        return self.responses.pop(self._send(request, version, lambda _: None))

    def delete_topic(self, topic: Uuid) -> None:
        self.topics.remove(topic)
        self.run(TopicsDeleted(frozenset({topic})))

    def reload(self) -> None:
        """Unload the shard and load the log again, without the records that were pruned."""
        self.run(Unloaded())
        self.shard = self._new_shard()
        for offset, record in enumerate(self.log):
            if offset >= self.log_start:
                self.shard.replay(record, offset)
        self.run(Loaded(8))

    def _new_shard(self) -> ShareCoordinatorShard:
        return ShareCoordinatorShard(
            self.settings,
            lambda topic, partition: topic in self.topics and (partition or 0) < self.partition_count,
        )

    def _execute(self, outcome: ShareOutcome) -> None:
        records = list(outcome.records)
        if records and self.append_error is not None:
            code, self.append_error = self.append_error, None
            self.run(AppendFailed([outcome], code))
            return
        for record in records:
            self.shard.replay(record, len(self.log))
            self.log.append(self._encoded(record))
        self._release(outcome.replies)
        for effect in outcome.effects:
            assert isinstance(effect, PruneLog)
            self.log_start = effect.offset
        if records:
            self.run(AppendCommitted([outcome]))

    def _encoded(self, record: ShareRecord) -> ShareRecord:
        """The record as it is read from the log."""
        batch = encode_batch([self._codec.encode(record)], self.wall_ms)
        ((_, decoded),) = self._codec.decode(read_header(batch), memoryview(batch))
        assert decoded == record
        return decoded

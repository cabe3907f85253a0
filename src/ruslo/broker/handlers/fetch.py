"""Fetch v4-18: byte ranges of segments, unchanged from disk.

v4 isolation level, v5 log start offset, v7 sessions (KIP-227), v9 leader epoch (KIP-320), v10 zstd, v11
rack id, v12 flexible and diverging epochs (KIP-595), v13 topic ids, v15 replica state, v16 leader hints,
v17 directory ids, v18 high watermark.

This is the second half of the hot path. ``consumer_fetch`` handles one request, ``follower_fetch`` one of a
follower.
"""

from __future__ import annotations

from dataclasses import dataclass

from ruslo.broker.counters.api_stats import ApiStats
from ruslo.broker.handlers.consumer_fetch import TOPIC_IDS_FROM, ConsumerFetch
from ruslo.broker.handlers.follower_fetch import FollowerFetch
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.preferred_read_replica import ReplicaSelector
from ruslo.broker.requests.access import NO_ACCESS, OPEN
from ruslo.broker.requests.session import ClientSession
from ruslo.machines.fetch_session import (
    FINAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchContext,
    FetchSessionCache,
)
from ruslo.model.acls import CLUSTER_NAME, Operation, ResourceType
from ruslo.model.clock import Clock
from ruslo.net.connection import Connection
from ruslo.protocol.fetch_codec import FetchBody, decode_fetch_request


@dataclass(slots=True, eq=False)
class FetchHandler:
    partitions: PartitionManager
    metadata: MetadataLoader
    selector: ReplicaSelector
    clock: Clock
    stats: ApiStats
    max_response_bytes: int
    sessions: FetchSessionCache

    def handle(
        self, connection: Connection, buf: bytearray, pos: int, end: int, version: int, correlation_id: int
    ) -> None:
        begun_ns = self.stats.now_ns()
        body = decode_fetch_request(buf, pos, end, version)
        context = self._open_context(body, version)
        max_bytes = min(body.max_bytes, self.max_response_bytes)
        # Waiting for more bytes than fit into the response would always time out.
        min_bytes = min(body.min_bytes, max_bytes)
        kind = ConsumerFetch if body.replica_id < 0 else FollowerFetch
        session: ClientSession = connection.session
        access = session.access
        if access is not OPEN and kind is FollowerFetch:
            # A replica with this permission reads every topic; a client without it gets an error for each.
            allowed = access.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, "Fetch")
            kind, access = (FollowerFetch, OPEN) if allowed else (ConsumerFetch, NO_ACCESS)
        fetch = kind(
            self,
            connection,
            body,
            context,
            version,
            correlation_id,
            begun_ns,
            max_bytes,
            min_bytes,
            access,
        )
        if context.error or not fetch.read() or body.max_wait_ms <= 0:
            connection.send_all(fetch.response())
        else:
            fetch.wait(connection.defer())

    def _open_context(self, body: FetchBody, version: int) -> FetchContext:
        listed = [
            CachedPartition(topic, index, offset, max_bytes, leader_epoch, fetched_epoch, log_start)
            for topic, partitions in body.topics
            for index, leader_epoch, offset, fetched_epoch, log_start, max_bytes, _, _ in partitions
        ]
        if body.session_epoch == FINAL_EPOCH and body.session_id == NO_SESSION:
            return FetchContext(listed)
        forgotten = [(topic, index) for topic, indexes in body.forgotten_topics for index in indexes]
        return self.sessions.open(
            body.session_id,
            body.session_epoch,
            listed,
            forgotten,
            version >= TOPIC_IDS_FROM,
            self.clock.monotonic_ms(),
        )

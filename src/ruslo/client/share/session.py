"""The client's half of a share session with one broker: which epoch and partitions a request names.

A session begins with a fetch of epoch 0, which lists all its partitions. Each later request, fetch or
acknowledgement, has the next epoch and lists only changes. The broker may have lost a session, or processed a
request whose response was lost: then the session begins again. Acquired records stay locked meanwhile, unless
the broker saw the connection close.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ruslo.client.share.acknowledgements import Acknowledgements, SharePartitionId, by_topic_id, renews
from ruslo.machines.share_partition.states import AcquireMode
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from ruslo.protocol.messages.share_fetch_request import (
    AcknowledgementBatch as FetchAcknowledgementBatch,
)
from ruslo.protocol.messages.share_fetch_request import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FetchLimits:
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_records: int = 500
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


NOTHING = FetchLimits(0, 0, 0, 0)
"""A fetch that only begins or changes a session."""


class ShareSession:
    """At most one request may be in progress; report its response before the next one."""

    def __init__(self, group_id: str, member_id: str) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[SharePartitionId, None] = {}

    @property
    def is_new(self) -> bool:
        """Whether the next request must be a fetch without acknowledgements."""
        return self._epoch == INITIAL_EPOCH

    @property
    def partitions(self) -> Collection[SharePartitionId]:
        return self._partitions.keys()

    def fetch(
        self, wanted: Collection[SharePartitionId], acknowledgements: Acknowledgements, limits: FetchLimits
    ) -> ShareFetchRequest:
        """Fetch from ``wanted``; acknowledge records of these partitions with the same request."""
        assert not (self.is_new and acknowledgements), "a session begins without acknowledgements"
        assert not renews(acknowledgements), "renewals would delay the fetch"
        known = {} if self.is_new else self._partitions
        added = [partition for partition in wanted if partition not in known]
        forgotten = [partition for partition in known if partition not in wanted]
        self._partitions = dict.fromkeys(wanted)
        listed = dict.fromkeys([*added, *acknowledgements])
        return ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.max_records,
            share_acquire_mode=limits.mode,
            topics=[
                FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(
                            partition_index=partition.partition,
                            acknowledgement_batches=[
                                FetchAcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                                )
                                for first, last, types in acknowledgements.get(partition, ())
                            ],
                        )
                        for partition in partitions
                    ],
                )
                for topic_id, partitions in by_topic_id(listed).items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=[each.partition for each in partitions])
                for topic_id, partitions in by_topic_id(forgotten).items()
            ],
        )

    def acknowledge(self, acknowledgements: Acknowledgements) -> ShareAcknowledgeRequest:
        assert not self.is_new, "a session begins with a fetch"
        return self._acknowledge(acknowledgements, self._epoch)

    def close(self, acknowledgements: Acknowledgements) -> ShareAcknowledgeRequest:
        """End the session; the broker releases the records that are still acquired."""
        return self._acknowledge(acknowledgements, FINAL_EPOCH)

    def _acknowledge(self, acknowledgements: Acknowledgements, epoch: int) -> ShareAcknowledgeRequest:
        return ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=epoch,
            is_renew_ack=renews(acknowledgements),
            topics=[
                AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[
                        AcknowledgePartition(
                            partition_index=partition.partition,
                            acknowledgement_batches=[
                                AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                                )
                                for first, last, types in acknowledgements[partition]
                            ],
                        )
                        for partition in partitions
                    ],
                )
                for topic_id, partitions in by_topic_id(acknowledgements).items()
            ],
        )

    def on_response(self, error_code: int) -> None:
        """After an error of the whole request, the broker may have counted the epoch or not: begin again."""
        if error_code != ErrorCode.NONE:
            self.reset()
        else:
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """The next request begins a new session: the connection was lost, or no response came."""
        self._epoch = INITIAL_EPOCH

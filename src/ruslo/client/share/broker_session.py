"""A share session with one broker, over the connection of a cluster: one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ruslo.client.share.acknowledgements import Acknowledgements, SharePartitionId, renews
from ruslo.client.share.acquired import Acquired, checked_ranges
from ruslo.client.share.session import NOTHING, FetchLimits, ShareSession
from ruslo.client.wire.cluster import Cluster
from ruslo.machines.share_partition.states import AcquireMode
from ruslo.machines.share_partition.values import AcquiredRange
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.net.channel import error_of
from ruslo.net.errors import ConnectionLost
from ruslo.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from ruslo.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from ruslo.protocol.messages.share_fetch_response import PartitionData, ShareFetchResponse

_RENEWAL_VERSION = 2
"""The version of ShareFetch and ShareAcknowledge with renewals and acquire modes (Kafka 4.2)."""
_LOST_SESSION = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})

Outcomes = dict[SharePartitionId, KafkaError | None]
"""The error of each partition's acknowledgements; None if they were accepted."""


class Fetched(NamedTuple):
    acquired: list[Acquired]
    outcomes: Outcomes
    """Results of the acknowledgements that the fetch carried."""
    errors: dict[SharePartitionId, KafkaError]
    """Errors of the partitions that were not fetched."""


class BrokerSession:
    def __init__(
        self, cluster: Cluster, node_id: int, group_id: str, member_id: str, request_timeout_ms: int
    ) -> None:
        self.node_id = node_id
        self.lock_timeout_ms = 0
        """How long acquired records stay locked; 0 until a response has said it."""
        self._cluster = cluster
        self._session = ShareSession(group_id, member_id)
        self._request_timeout_ms = request_timeout_ms
        self._turn = asyncio.Lock()
        self._clock = SystemClock()

    async def fetch(
        self,
        wanted: Collection[SharePartitionId],
        limits: FetchLimits,
        acknowledgements: Acknowledgements | None = None,
    ) -> Fetched:
        """Acquire records. Renewals, and acknowledgements of other partitions or a lost session, go ahead."""
        async with self._turn:
            carried: Acknowledgements = {}
            outcomes: Outcomes = {}
            if acknowledgements:
                if not self._session.is_new:
                    carried = {
                        tp: found
                        for tp, found in acknowledgements.items()
                        if tp in wanted and not renews({tp: found})
                    }
                ahead = {tp: found for tp, found in acknowledgements.items() if tp not in carried}
                if ahead:
                    outcomes = await self._acknowledge(ahead, wanted)
            return await self._fetch(wanted, limits, carried, outcomes)

    async def acknowledge(self, acknowledgements: Acknowledgements) -> Outcomes:
        """Send acknowledgements by themselves. Errors are results, also those of the whole request."""
        if not acknowledgements:
            return {}
        async with self._turn:
            return await self._acknowledge(acknowledgements, self._session.partitions)

    async def close(self, acknowledgements: Acknowledgements) -> Outcomes:
        """Acknowledge, and release all other records that the member has acquired at this broker."""
        async with self._turn:
            if self._session.is_new:
                if not acknowledgements:
                    return {}
                outcomes = await self._acknowledge(acknowledgements, self._session.partitions)
                acknowledgements = {}
                if self._session.is_new:
                    return outcomes
            else:
                outcomes = {}
            closing = await self._send(self._session.close(acknowledgements), acknowledgements)
            return {**outcomes, **closing}

    # -- within the turn

    async def _fetch(
        self,
        wanted: Collection[SharePartitionId],
        limits: FetchLimits,
        carried: Acknowledgements,
        outcomes: Outcomes,
    ) -> Fetched:
        known = dict.fromkeys([*wanted, *self._session.partitions])
        request = self._session.fetch(wanted, carried, limits)
        try:
            response = await self._cluster.node(
                self.node_id,
                request,
                ShareFetchResponse,
                min_version=_RENEWAL_VERSION if limits.mode is AcquireMode.RECORD_LIMIT else 1,
                timeout_ms=limits.max_wait_ms + self._request_timeout_ms,
            )
        except KafkaError as error:
            self._session.reset()
            return _failed(error, wanted, carried, outcomes)
        except BaseException:
            self._session.reset()
            raise
        self._session.on_response(response.error_code)
        if response.error_code:
            text = response.error_message or self._rejected("ShareFetch")
            return _failed(error_of(response.error_code, text), wanted, carried, outcomes)
        self._note_lock_timeout(response.acquisition_lock_timeout_ms)
        fetched = Fetched([], outcomes, {})
        expires_at_ms = self._clock.monotonic_ms() + self.lock_timeout_ms
        names = _by_index(known)
        for topic in response.responses:
            for part in topic.partitions:
                partition = names.get((topic.topic_id, part.partition_index))
                if partition is not None:
                    self._add(fetched, partition, part, expires_at_ms)
                    if partition in carried:
                        code, message = part.acknowledge_error_code, part.acknowledge_error_message
                        outcomes[partition] = error_of(code, message) if code else None
        _complete(outcomes, carried, self.node_id)
        return fetched

    def _add(
        self, fetched: Fetched, partition: SharePartitionId, part: PartitionData, expires_at_ms: int
    ) -> None:
        if part.error_code:
            text = part.error_message or f"{partition.topic_partition} cannot be fetched"
            fetched.errors[partition] = error_of(part.error_code, text)
        elif part.acquired_records:
            ranges = checked_ranges(
                (
                    AcquiredRange(r.first_offset, r.last_offset, r.delivery_count)
                    for r in part.acquired_records
                ),
                partition,
            )
            records = b"" if part.records is None else part.records
            fetched.acquired.append(
                Acquired(partition, self.node_id, ranges, records, self.lock_timeout_ms, expires_at_ms)
            )

    async def _acknowledge(
        self, acknowledgements: Acknowledgements, wanted: Collection[SharePartitionId]
    ) -> Outcomes:
        """A lost session is begun again: the locks outlive it, unless the broker saw the connection close."""
        for is_last in (False, True):
            if self._session.is_new:
                try:
                    await self._fetch(wanted, NOTHING, {}, {})
                except KafkaError as error:
                    return dict.fromkeys(acknowledgements, error)
            outcomes = await self._send(self._session.acknowledge(acknowledgements), acknowledgements)
            lost = any(error is not None and error.code in _LOST_SESSION for error in outcomes.values())
            if is_last or not lost:
                break
        return outcomes

    async def _send(self, request: ShareAcknowledgeRequest, acknowledgements: Acknowledgements) -> Outcomes:
        try:
            response = await self._cluster.node(
                self.node_id,
                request,
                ShareAcknowledgeResponse,
                min_version=_RENEWAL_VERSION if request.is_renew_ack else 1,
                timeout_ms=self._request_timeout_ms,
            )
        except KafkaError as error:
            self._session.reset()
            return dict.fromkeys(acknowledgements, error)
        except BaseException:
            self._session.reset()
            raise
        self._session.on_response(response.error_code)
        if response.error_code:
            text = response.error_message or self._rejected("ShareAcknowledge")
            return dict.fromkeys(acknowledgements, error_of(response.error_code, text))
        self._note_lock_timeout(response.acquisition_lock_timeout_ms)
        names = _by_index(acknowledgements)
        outcomes: Outcomes = {}
        for topic in response.responses:
            for part in topic.partitions:
                partition = names.get((topic.topic_id, part.partition_index))
                if partition is not None:
                    text = (
                        part.error_message or f"records of {partition.topic_partition} are not acknowledged"
                    )
                    outcomes[partition] = error_of(part.error_code, text) if part.error_code else None
        _complete(outcomes, acknowledgements, self.node_id)
        return outcomes

    def _note_lock_timeout(self, timeout_ms: int) -> None:
        if timeout_ms > 0:
            self.lock_timeout_ms = timeout_ms

    def _rejected(self, api: str) -> str:
        return f"broker {self.node_id} rejected {api}"


def _by_index(partitions: Iterable[SharePartitionId]) -> Mapping[tuple[Uuid, int], SharePartitionId]:
    return {(each.topic_id, each.partition): each for each in partitions}


def _failed(
    error: KafkaError, wanted: Collection[SharePartitionId], carried: Acknowledgements, outcomes: Outcomes
) -> Fetched:
    """Raises the error, unless there are outcomes to tell: those of requests ahead do not change."""
    if not carried and not outcomes:
        raise error
    return Fetched([], {**outcomes, **dict.fromkeys(carried, error)}, dict.fromkeys(wanted, error))


def _complete(outcomes: Outcomes, acknowledgements: Acknowledgements, node_id: int) -> None:
    for partition in acknowledgements:
        if partition not in outcomes:
            outcomes[partition] = ConnectionLost(
                f"the response of broker {node_id} does not include {partition.topic_partition}"
            )

"""ShareFetch v1-2: acquires records for a member of a share group (KIP-932).

A request may acknowledge records as well; its response has the results of both. v2 has the strict record
limit (KIP-1206) and renews acquisition locks (KIP-1222); a request that renews acquires nothing.

Records leave as they are on disk, from the batch of the first acquired record to that of the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ruslo.broker.handlers.services import Services
from ruslo.broker.handlers.share_acknowledgements import (
    RENEWAL_FROM,
    Acknowledging,
    ShareClient,
    batches_by_partition,
)
from ruslo.broker.partitions.purgatory import DelayedFetch
from ruslo.broker.requests.chunked_response import ChunkedResponse, WaitingResponse
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.share_partitions.led_partition import LedSharePartition
from ruslo.broker.share_partitions.share_fetch import FetchLimits, FetchResults, ShareFetch
from ruslo.machines.share_partition.states import AcquireMode
from ruslo.machines.share_partition.values import AcquireLimits
from ruslo.machines.share_session import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, TopicIdPartition
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.net.send_queue import Chunk
from ruslo.protocol.leader_hints import NO_LEADER, NodeEndpoint
from ruslo.protocol.message import Message
from ruslo.protocol.messages.share_fetch_request import ShareFetchRequest
from ruslo.protocol.share_fetch_response_codec import FetchedSharePartition, encode_share_fetch_response
from ruslo.storage.disk import FileSlice

_ACQUIRE_MODES = frozenset(AcquireMode)


@dataclass(slots=True, eq=False)
class ShareFetchResult(ChunkedResponse):
    topics: Mapping[Uuid, Mapping[int, FetchedSharePartition[FileSlice]]]
    lock_timeout_ms: int
    node_endpoints: Sequence[NodeEndpoint] = ()
    error: KafkaError | None = None
    throttle_time_ms: int = 0

    def encode(self, out: bytearray, version: int) -> tuple[Sequence[Chunk], int]:
        return encode_share_fetch_response(
            out,
            version,
            self.topics,
            throttle_time_ms=self.throttle_time_ms,
            error_code=self.error.code if self.error is not None else ErrorCode.NONE,
            error_message=self.error.message if self.error is not None else None,
            lock_timeout_ms=self.lock_timeout_ms,
            node_endpoints=self.node_endpoints,
        )

    def error_codes(self) -> Iterator[int]:
        if self.error is not None:
            yield self.error.code
        for partitions in self.topics.values():
            for result in partitions.values():
                if result.error_code:
                    yield result.error_code
                if result.acknowledge_error_code:
                    yield result.acknowledge_error_code


def handle(
    services: Services, request: ShareFetchRequest, context: RequestContext
) -> ShareFetchResult | WaitingResponse:
    client = ShareClient.of(services, request, context)
    _check(request, context.api_version)
    exchange = _Exchange(client, request)
    try:
        exchange.open_session()
    except KafkaError as error:
        if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            raise
        # The client would try again at once.
        return _fail_later(error, request.max_wait_ms)
    return exchange.start()


def _check(request: ShareFetchRequest, version: int) -> None:
    """Raise INVALID_REQUEST for a request that no client may send."""
    if request.share_acquire_mode not in _ACQUIRE_MODES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Acquire mode {request.share_acquire_mode} does not exist. Use 0 (batch optimized) or 1 (record "
            "limit).",
        )
    if request.is_renew_ack and version >= RENEWAL_FROM:
        limits = ("max_bytes", "min_bytes", "max_records", "max_wait_ms")
        wrong = [name for name in limits if getattr(request, name)]
        if wrong:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A request that renews locks acquires no records. Set {' and '.join(wrong)} to 0.",
            )
    has_acknowledgements = any(
        partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions
    )
    if request.share_session_epoch == INITIAL_EPOCH and has_acknowledgements:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A request that opens a share session cannot acknowledge. Send it without acknowledgements.",
        )


def _fail_later(error: KafkaError, max_wait_ms: int) -> WaitingResponse:
    future: asyncio.Future[Message | ChunkedResponse] = asyncio.get_running_loop().create_future()
    delayed = DelayedFetch((), 1, False, max(max_wait_ms, 0), partial(_fail, future, error))
    return WaitingResponse(future, delayed.wake)


def _fail(future: asyncio.Future[Message | ChunkedResponse], error: KafkaError) -> None:
    future.set_exception(error)


@dataclass(slots=True, eq=False)
class _Exchange:
    """One request: its acknowledgements, and its fetch while they are written; it ends with both."""

    _client: ShareClient
    _request: ShareFetchRequest
    _session: ShareSession | None = None
    """None: the request closes the session."""
    _next_epoch: int = 0
    _fetch: ShareFetch | None = None
    _fetched: FetchResults = field(default_factory=dict)
    """Results without the fetch: errors of partitions that the member may not fetch."""
    _acknowledging: Acknowledging | None = None
    _has_begun: bool = False
    """The fetch has begun, if the request has one."""
    _future: asyncio.Future[Message | ChunkedResponse] | None = None

    def open_session(self) -> None:
        request, key = self._request, self._client.session_key
        sessions, epoch = self._client.services.share_partitions.sessions, request.share_session_epoch
        listed = [
            (topic.topic_id, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        ]
        connection = self._client.context.connection
        if epoch == INITIAL_EPOCH:
            self._session = sessions.open(key, listed, connection)
            if connection is not None:
                lost = self._client.services.share_partitions.connection_lost
                connection.when_lost(partial(lost, connection))
        else:
            session = sessions.use(key, epoch)
            if epoch == FINAL_EPOCH:
                return
            self._session = session
            forgotten = [
                (topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ]
            try:
                sessions.update(session, listed, forgotten)
            except KafkaError:
                self._client.services.share_partitions.close_session(key)
                raise
        self._next_epoch = self._session.epoch

    def start(self) -> ShareFetchResult | WaitingResponse:
        acknowledgements = batches_by_partition(self._request.topics)
        if any(acknowledgements.values()):
            self._acknowledging = self._client.acknowledge(acknowledgements, self._request.is_renew_ack)
            self._acknowledging.done.add_done_callback(self._complete)
        if self._acknowledging is None or self._acknowledging.submitted.done():
            self._begin_fetch()
            if self._is_done:
                return self._result()
        else:
            self._acknowledging.submitted.add_done_callback(self._begin_fetch)
        self._future = asyncio.get_running_loop().create_future()
        return WaitingResponse(self._future, self._abandon)

    def _begin_fetch(self, _: object = None) -> None:
        if self._session is not None and not self._request.is_renew_ack:
            self._start_fetch(self._session)
        self._has_begun = True
        self._complete(None)

    def _abandon(self) -> None:
        if self._fetch is not None:
            self._fetch.abandon()

    @property
    def _is_final(self) -> bool:
        return self._session is None

    @property
    def _is_done(self) -> bool:
        return (
            self._has_begun
            and (self._fetch is None or self._fetch.done.done())
            and (self._acknowledging is None or self._acknowledging.done.done())
        )

    def _complete(self, _: object) -> None:
        future = self._future
        if future is None or future.done() or not self._is_done:
            return
        try:
            future.set_result(self._result())
        except Exception as error:
            future.set_exception(error)

    # -- the fetch -------------------------------------------------------------------------------------------

    def _start_fetch(self, session: ShareSession) -> None:
        request, shares = self._request, self._client.services.share_partitions
        max_bytes = min(request.max_bytes, self._client.services.config.int("fetch.max.bytes"))
        allowed: list[TopicIdPartition] = []
        for tp in session.partitions:
            error = self._client.access_error(tp, ErrorCode.UNKNOWN_TOPIC_ID)
            if error is None:
                allowed.append(tp)
            else:
                self._fail(tp, error)
        if request.max_records <= 0 or max_bytes <= 0:
            return
        targets: dict[TopicIdPartition, LedSharePartition] = {}
        for tp in _rotated(allowed, request.share_session_epoch):
            try:
                targets[tp] = shares.open(self._client.group_id, tp)
            except KafkaError as error:
                self._fail(tp, error)
        if not targets:
            return
        mode = AcquireMode(request.share_acquire_mode)
        limits = FetchLimits(
            max(request.max_wait_ms, 0),
            min(request.min_bytes, max_bytes),
            max_bytes,
            AcquireLimits(request.max_records, request.batch_size, mode),
        )
        fetch = ShareFetch(shares, self._client.session_key.member_id, limits, targets, self._may_acquire)
        self._fetch = fetch
        fetch.start()
        if not fetch.done.done():
            fetch.done.add_done_callback(self._complete)

    def _fail(self, tp: TopicIdPartition, error: KafkaError) -> None:
        self._fetched[tp] = FetchedSharePartition(error_code=error.code, error_message=error.message)

    def _may_acquire(self) -> bool:
        connection = self._client.context.connection
        return self._is_session_current() and (connection is None or not connection.closed)

    def _is_session_current(self) -> bool:
        session = self._session
        sessions = self._client.services.share_partitions.sessions
        return (
            session is not None
            and session.epoch == self._next_epoch
            and sessions.get(self._client.session_key) is session
        )

    # -- the response ----------------------------------------------------------------------------------------

    def _result(self) -> ShareFetchResult:
        client = self._client
        results: FetchResults = {}
        error: KafkaError | None = None
        if self._session is not None:
            fetched = self._fetched | (self._fetch.done.result() if self._fetch is not None else {})
            self._count(fetched)
            if self._is_session_current():
                results = self._included(self._session, fetched)
            else:
                error = KafkaError(
                    ErrorCode.INVALID_SHARE_SESSION_EPOCH, "A later request has used the share session."
                )
        if self._acknowledging is not None:
            for tp, problem in self._acknowledging.done.result().items():
                result = results.setdefault(tp, FetchedSharePartition())
                if problem is not None:
                    result.acknowledge_error_code = problem.code
                    result.acknowledge_error_message = problem.message
        if self._is_final:
            client.services.share_partitions.close_session(client.session_key)
        for tp, result in results.items():
            result.leader = client.leader_of(tp, result.error_code)
        leaders = [each.leader for each in results.values() if each.leader != NO_LEADER]
        return ShareFetchResult(
            _by_topic(results),
            client.lock_duration_ms,
            client.endpoints(leaders),
            error,
            self._throttle_ms(sum(each.size for each in results.values())),
        )

    def _included(self, session: ShareSession, fetched: FetchResults) -> FetchResults:
        return {
            tp: result
            for tp, result in fetched.items()
            if session.must_include(tp, result.error_code, result.size)
        }

    def _count(self, fetched: FetchResults) -> None:
        by_id = self._client.services.partitions.by_id
        topics: dict[Uuid, bool] = {}
        for (topic_id, index), result in fetched.items():
            topics[topic_id] = topics.get(topic_id, False) or result.error_code != 0
            partition = by_id.get(topic_id, {}).get(index)
            if partition is not None:
                partition.traffic.bytes_out += result.size
        for topic_id, has_failed in topics.items():
            partition = next(iter(by_id.get(topic_id, {}).values()), None)
            if partition is not None:
                partition.traffic.share_fetches += 1
                partition.traffic.failed_share_fetches += has_failed

    def _throttle_ms(self, size: int) -> int:
        """Record the bytes. The records are acquired, so the client gets them, and its next request waits."""
        connection = self._client.context.connection
        meter = None if connection is None else connection.session.meters.fetch
        if meter is None:
            return 0
        wait_ms: int = meter.throttle_ms(size, self._client.services.clock.monotonic_ms())
        return wait_ms


def _rotated(tps: Sequence[TopicIdPartition], epoch: int) -> Sequence[TopicIdPartition]:
    """Another partition is the first with each request, so none starves the others."""
    at = epoch % len(tps) if tps and epoch > 0 else 0
    return [*tps[at:], *tps[:at]]


def _by_topic(
    results: FetchResults,
) -> dict[Uuid, dict[int, FetchedSharePartition[FileSlice]]]:
    topics: dict[Uuid, dict[int, FetchedSharePartition[FileSlice]]] = {}
    for (topic_id, index), result in results.items():
        topics.setdefault(topic_id, {})[index] = result
    return topics

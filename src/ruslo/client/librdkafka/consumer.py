"""Consumer: the settings of Kafka's Java consumer, over librdkafka."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from ruslo.client.errors import UndecodableRecord
from ruslo.client.librdkafka.client import LibrdkafkaClient
from ruslo.client.librdkafka.consumed_record import (
    ConsumedRecord,
    Deserializer,
    PartitionEnd,
    RecordReader,
    partition_of,
    position_of,
)
from ruslo.client.librdkafka.consumer_progress import ConsumerProgress, Position
from ruslo.client.librdkafka.errors import as_kafka_error, translated
from ruslo.client.librdkafka.message_queue import MessageQueue
from ruslo.client.librdkafka.rebalances import RebalanceCallback, Rebalances
from ruslo.client.librdkafka.topic_pattern import posix_pattern
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.client.settings.tables import CONSUMER
from ruslo.client.settings.translation import consumer_settings
from ruslo.client.type_variables import ConsumedK, ConsumedV
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError, RusloError
from ruslo.model.topics import TopicPartition
from ruslo.net.errors import RequestTimedOut

if TYPE_CHECKING:
    import confluent_kafka

T = TypeVar("T")

__all__ = ["END", "START", "ConsumedRecord", "Consumer", "PartitionEnd"]

START = -2
"""As an offset: the log start offset."""
END = -1
"""As an offset: the end of the log."""

_PLACEHOLDER_GROUP_ID = "ruslo-without-group"
"""librdkafka requires a group id even for consumers without a group."""
_RETRY_BACKOFF_S = 0.05
_POLL_MAX_S = 1.0
_QUEUED_BATCH = 10_000
_MAX_QUEUED_BATCHES = 100
"""The number of messages that may be queued before a rebalance event."""
_CALL_MAX_S = 1.0
"""The longest call into librdkafka: Python handles Ctrl-C between calls."""
_log = logging.getLogger("ruslo.client")


class Consumer(Generic[ConsumedK, ConsumedV]):
    """Reads manually assigned partitions, or those of a group member after ``subscribe``.

    - ``for record in consumer`` reads forever; ``poll`` and ``batches`` return lists.
    - ``enable.auto.commit`` commits the offsets of processed records: those before the last poll. ``commit``
      commits the offsets of all delivered records. Without ``group.id`` nothing is committed.
    - A consumer belongs to one thread and cannot be used after a fork.
    """

    keeps_last_delivery = False
    """Whether ``undeliver`` is possible."""

    def __init__(
        self,
        config: Mapping[str, ClientConfigValue],
        *,
        key_deserializer: Deserializer[ConsumedK] | None = None,
        value_deserializer: Deserializer[ConsumedV] | None = None,
    ) -> None:
        import confluent_kafka

        settings = consumer_settings(config)
        self._settings = settings
        named = settings.librdkafka
        if not settings.has_group:
            named = {**named, "group.id": _PLACEHOLDER_GROUP_ID}
        self._client = LibrdkafkaClient(confluent_kafka.Consumer, "consumer", CONSUMER, named)
        self._handle = self._client.handle
        self._reader = RecordReader(key_deserializer, value_deserializer)
        self._queue = MessageQueue(self._handle, settings.max_poll_records)
        self._progress = ConsumerProgress()
        self._last_delivered: list[confluent_kafka.Message] = []
        self._subscribed = False
        self._probed = False
        self._closing = False
        self._rebalances = Rebalances(
            cooperative=settings.cooperative,
            start_positions=self._committed_positions if settings.read_committed else None,
            before_revoke=self._store_processed,
            after_loss=self._forget,
        )

    # -- subscription and assignment

    def subscribe(
        self,
        topics: Sequence[str] | re.Pattern[str],
        *,
        on_assign: RebalanceCallback | None = None,
        on_revoke: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Join the group with these topics, or with all whose full name matches a pattern.

        Callbacks run within ``poll``. ``seek`` in ``on_assign`` sets the start offset. ``commit`` still works
        in ``on_revoke``, but not in ``on_lost`` (by default ``on_revoke``).
        """
        self._need_group("subscribe")
        self._client.check_usable()
        names = [f"^({posix_pattern(topics)})$"] if isinstance(topics, re.Pattern) else _names(topics)
        self._rebalances.listen(on_assign, on_revoke, on_lost)
        with translated():
            self._handle.subscribe(
                names,
                on_assign=self._rebalances.assigned,
                on_revoke=self._rebalances.revoked,
                on_lost=self._rebalances.lost,
            )
        self._subscribed = True

    def unsubscribe(self) -> None:
        """Leave the group, or drop the manual assignment."""
        self._client.check_usable()
        self._progress.mark_processed()
        self._store_processed()
        with translated():
            self._handle.unsubscribe()
        self._subscribed = False
        self._queue.clear()

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Assign these partitions manually, from these offsets; START and END are valid offsets."""
        self._client.check_usable()
        self._forget(self.assignment())
        with translated():
            self._handle.assign(_their_offsets(positions))

    def assignment(self) -> list[TopicPartition]:
        self._client.check_usable()
        return [TopicPartition(each.topic, each.partition) for each in self._handle.assignment()]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at this offset; START and END are valid offsets."""
        self._client.check_usable()
        if self._rebalances.seek(partition, offset):
            return
        target = _their_offsets({partition: offset})[0]
        self._retrying(lambda _: self._handle.seek(target), also=ErrorCode.INVALID_REQUEST)
        self._forget([partition])
        if offset >= 0:
            self._progress.deliver(partition, offset - 1, None)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these until ``resume``; the consumer remains a group member."""
        self._client.check_usable()
        chosen = list(partitions)
        with translated():
            self._handle.pause(_their_offsets(dict.fromkeys(chosen, END)))
            for partition in chosen:
                # Queued records must be returned after resume.
                queued = self._queue.first_offset(partition)
                if queued is not None:
                    self._handle.seek(_their_offsets({partition: queued})[0])
        self._queue.drop(chosen)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._client.check_usable()
        with translated():
            self._handle.resume(_their_offsets(dict.fromkeys(partitions, END)))

    # -- records

    def poll(self, timeout_s: float = 1.0) -> list[ConsumedRecord[ConsumedK, ConsumedV]]:
        """Up to ``max.poll.records`` records; empty after the timeout."""
        return [event for event in self.poll_events(timeout_s) if not isinstance(event, PartitionEnd)]

    def poll_events(
        self, timeout_s: float = 1.0
    ) -> list[ConsumedRecord[ConsumedK, ConsumedV] | PartitionEnd]:
        """As ``poll``, plus partition ends if ``enable.partition.eof`` is set."""
        deadline = time.monotonic() + timeout_s
        self._begin_poll()
        events = self._deliver(self._settings.max_poll_records)
        while not events:
            left_s = deadline - time.monotonic()
            # Even with a timeout of 0: take what has arrived, and keep the membership alive.
            self._queue.fill(min(max(left_s, 0.0), _POLL_MAX_S))
            events = self._deliver(self._settings.max_poll_records)
            if not events:
                self._raise_permanent_error()
            if left_s <= 0:
                break
        return events

    def batches(self, max_wait_s: float = 1.0) -> Iterator[list[ConsumedRecord[ConsumedK, ConsumedV]]]:
        """Lists of one to ``max.poll.records`` records, forever."""
        while self._client.unusable is None:
            records = self.poll(max_wait_s)
            if records:
                yield records

    def __iter__(self) -> Iterator[ConsumedRecord[ConsumedK, ConsumedV]]:
        return self

    def __next__(self) -> ConsumedRecord[ConsumedK, ConsumedV]:
        while not self.closed:
            record = self.poll_one(_POLL_MAX_S)
            if record is not None:
                return record
        raise StopIteration

    def poll_one(self, timeout_s: float) -> ConsumedRecord[ConsumedK, ConsumedV] | None:
        """The next record; None after the timeout."""
        self._begin_poll()
        if not self._queue:
            self._queue.fill(timeout_s)
        events = self._deliver(1)
        if not events:
            self._raise_permanent_error()
        return events[0] if events and not isinstance(events[0], PartitionEnd) else None

    def undeliver(self) -> None:
        """Undo the last delivery, whose caller was cancelled: the next poll returns the same records."""
        self._queue.put_back(self._last_delivered)
        self._progress.undeliver(partition_of(message) for message in self._last_delivered)
        self._last_delivered.clear()

    def next_buffered(self) -> ConsumedRecord[ConsumedK, ConsumedV] | None:
        """The next record if it needs no call into librdkafka, which may block; else None."""
        if self._client.unusable is not None or not self._queue or self._queue.poll_due:
            return None
        self._progress.mark_processed()
        events = self._deliver(1)
        return events[0] if events and not isinstance(events[0], PartitionEnd) else None

    # -- offsets

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to deliver; None before the first one."""
        return self.positions().get(partition)

    def positions(self) -> dict[TopicPartition, int]:
        """The positions of all partitions with delivered records."""
        return {tp: position.offset for tp, position in self._progress.positions().items()}

    def commit(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit offsets and wait for the response; by default those of all delivered records."""
        offsets = self._offsets_to_commit(positions)
        if not offsets:
            return
        with translated():
            results = self._handle.commit(offsets=offsets, asynchronous=False)
        for each in results or ():
            if each.error is not None:
                error = as_kafka_error(each.error)
                tp = TopicPartition(each.topic, each.partition)
                raise KafkaError(error.code, f"the offset of {tp} was not committed: {error.message}")

    def commit_async(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit without waiting; the callable in the setting ``on_commit`` gets the result."""
        offsets = self._offsets_to_commit(positions)
        if offsets:
            with translated():
                self._handle.commit(offsets=offsets, asynchronous=True)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """The group's committed offsets; None for partitions without one.

        With ``isolation.level=read_committed`` this waits for open transactions with pending commits.
        """
        self._need_group("committed")
        chosen = _their_offsets(dict.fromkeys(partitions, END))

        def attempt(timeout_s: float) -> dict[TopicPartition, int | None]:
            found = _offsets_of(self._handle.committed(chosen, timeout_s))
            return {tp: offset if offset >= 0 else None for tp, offset in found.items()}

        # During a rebalance, the retry has the member's new epoch.
        return self._retrying(attempt, timeout_s, also=ErrorCode.STALE_MEMBER_EPOCH)

    def group_metadata(self) -> object:
        """The member's identity, which transactions send with offsets so that zombies are fenced."""
        self._need_group("group_metadata")
        self._client.check_usable()
        return self._handle.consumer_group_metadata()

    def partitions_for(self, topic: str, timeout_s: float | None = None) -> list[int]:
        """The topic's partitions; raises UNKNOWN_TOPIC_OR_PARTITION when it does not exist."""
        found = self._retrying(
            lambda call_s: self._handle.list_topics(topic, call_s).topics[topic], timeout_s
        )
        if found.error is not None:
            raise KafkaError(as_kafka_error(found.error).code, f"topic {topic!r} does not exist")
        return sorted(found.partitions)

    def offset_range(self, partition: TopicPartition, timeout_s: float | None = None) -> tuple[int, int]:
        """The log start offset and the end offset."""
        theirs = _their_offsets({partition: END})[0]
        found = self._retrying(lambda call_s: self._handle.get_watermark_offsets(theirs, call_s), timeout_s)
        assert found is not None, "only cached watermarks may be None"
        return found

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset at or after a timestamp, per partition; END if all records are older."""

        wanted = _their_offsets(times_ms)
        return self._retrying(
            lambda call_s: _offsets_of(self._handle.offsets_for_times(wanted, call_s)), timeout_s
        )

    # -- close

    @property
    def closed(self) -> bool:
        return self._client.unusable is not None

    def close(self) -> None:
        """Leave the group; with ``enable.auto.commit`` all delivered records count as processed."""
        if self._client.unusable is None:
            self._progress.mark_processed()
            self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
        elif self._client.unusable is None:
            # The current record was not processed, so it must not be committed.
            self._leave()

    def _leave(self) -> None:
        self._store_processed()
        self._closing = True
        try:
            self._end_rebalance()
        finally:
            self._handle.close()
            self._client.unusable = "the consumer is closed"
            self._queue.clear()

    def _end_rebalance(self) -> None:
        """Run the callbacks of a rebalance that no poll has handed out.

        librdkafka's close would run them, but it may end the membership at the same time. It then drops the
        assignment without a reply, and close never returns (seen in 1 of some 500 closes during a rebalance).
        """
        if self._subscribed and not self._settings.is_static_member:
            # No other rebalance can begin now. A static member would leave the group.
            self._handle.unsubscribe()
        for _ in range(_MAX_QUEUED_BATCHES):
            if len(self._handle.consume(_QUEUED_BATCH, 0)) < _QUEUED_BATCH:
                break

    def _begin_poll(self) -> None:
        self._client.check_usable()
        self._progress.mark_processed()
        self._last_delivered.clear()
        if not self._queue or self._queue.poll_due:
            self._store_processed()
            if self._queue:
                self._queue.fill(0)

    def _deliver(self, limit: int) -> list[ConsumedRecord[ConsumedK, ConsumedV] | PartitionEnd]:
        events: list[ConsumedRecord[ConsumedK, ConsumedV] | PartitionEnd] = []
        last: dict[tuple[str, int], confluent_kafka.Message] = {}
        while self._queue and len(events) < limit:
            message = self._queue.peek()
            error = message.error()
            try:
                if error is None:
                    record = self._reader.read(message)
                    last[record.topic, record.partition] = message
                    events.append(record)
                else:
                    events += self._handle_error(error, message)
            except RusloError as problem:
                # Earlier records are delivered first. The error is then raised by every poll until a seek.
                if events:
                    break
                if not isinstance(problem, UndecodableRecord):
                    self._queue.pop()
                raise
            self._queue.pop()
            if self.keeps_last_delivery:
                self._last_delivered.append(message)
        for message in last.values():
            tp, offset = position_of(message)
            self._progress.deliver(tp, offset, message.leader_epoch())
        return events

    def _handle_error(
        self, error: confluent_kafka.KafkaError, message: confluent_kafka.Message
    ) -> list[PartitionEnd]:
        """librdkafka restores connections and memberships itself; raise every other error."""
        from confluent_kafka import KafkaError as Theirs

        code = error.code()
        if code == Theirs._PARTITION_EOF:
            (topic, partition), offset = position_of(message)
            return [PartitionEnd(topic, partition, offset)]
        if code in (Theirs._ALL_BROKERS_DOWN, Theirs._TRANSPORT):
            return []
        ours = as_kafka_error(error)
        if ours.code == ErrorCode.GROUP_AUTHORIZATION_FAILED and not self._settings.has_group:
            # librdkafka looks for the coordinator of the placeholder, which this consumer does not use.
            return []
        may_be_created = self._subscribed and ours.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if may_be_created or code == Theirs._MAX_POLL_EXCEEDED:
            _log.warning("%s", ours.message)
            return []
        raise ours

    def _raise_permanent_error(self) -> None:
        """Raise an error that no retry fixes; brokers are probed for it once."""
        self._client.raise_tls_error()
        last = self._client.last_error
        if last is not None and last.code == ErrorCode.NETWORK_EXCEPTION and not self._probed:
            self._probed = True
            self._client.raise_permanent_error()

    def _committed_positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The start offsets of newly assigned partitions.

        librdkafka would fetch them itself, but if a rebalance interrupts its wait for a pending transactional
        commit, it falls back to ``auto.offset.reset`` as if there were no committed offset.
        """
        # An assignment may arrive while the consumer closes. librdkafka fetches no offsets then.
        if not partitions or self._closing:
            return {}
        found = self.committed(partitions)
        return {tp: offset for tp, offset in found.items() if offset is not None}

    def _store_processed(self) -> None:
        processed = self._progress.take_to_store()
        if not processed or not self._settings.auto_commit:
            return
        from confluent_kafka import KafkaException

        try:
            self._handle.store_offsets(offsets=_their_positions(processed))
        except KafkaException as error:
            # A partition was revoked and the callback is still to run. Its new owner continues from the
            # committed offset.
            _log.debug("offsets not stored: %s", error)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        self._last_delivered = [
            message for message in self._last_delivered if partition_of(message) not in partitions
        ]
        self._queue.drop(partitions)
        self._progress.forget(partitions)

    def _offsets_to_commit(
        self, positions: Mapping[TopicPartition, int] | None
    ) -> list[confluent_kafka.TopicPartition]:
        self._need_group("commit")
        self._client.check_usable()
        if positions is None:
            return _their_positions(self._progress.positions())
        return _their_offsets(positions)

    def _need_group(self, what: str) -> None:
        if not self._settings.has_group:
            raise ConfigError(f"{what} needs a group: set group.id, or use assign")

    def _retrying(
        self, attempt: Callable[[float], T], timeout_s: float | None = None, *, also: ErrorCode | None = None
    ) -> T:
        """Retry retriable errors until the timeout: the leader of a new topic may not know it yet."""
        self._client.check_usable()
        limit_s = self._settings.api_timeout_ms / 1000 if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        while True:
            try:
                with translated():
                    return attempt(max(0.001, min(_CALL_MAX_S, deadline - time.monotonic())))
            except KafkaError as error:
                retriable = error.code.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not (retriable or error.code == also):
                    raise
                if error.code == ErrorCode.NETWORK_EXCEPTION and not self._subscribed:
                    # Without a group nothing else polls librdkafka, which reports the cause in poll.
                    self._queue.fill(0.0)
                    self._raise_permanent_error()
                if time.monotonic() + _RETRY_BACKOFF_S >= deadline:
                    reason = f"{error.message}{self._client.last_error_suffix()}"
                    raise RequestTimedOut(f"no response within {limit_s:g} s: {reason}") from error
            time.sleep(_RETRY_BACKOFF_S)


def _names(topics: Sequence[str]) -> list[str]:
    if isinstance(topics, str):
        raise ConfigError(f"subscribe needs a list of topics: write [{topics!r}]")
    return list(topics)


def _their_offsets(offsets: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    from confluent_kafka import TopicPartition as Theirs

    return [Theirs(tp.topic, tp.partition, offset) for tp, offset in offsets.items()]


def _their_positions(positions: Mapping[TopicPartition, Position]) -> list[confluent_kafka.TopicPartition]:
    from confluent_kafka import TopicPartition as Theirs

    return [
        Theirs(tp.topic, tp.partition, position.offset, leader_epoch=position.leader_epoch)
        for tp, position in positions.items()
    ]


def _offsets_of(theirs: Sequence[confluent_kafka.TopicPartition]) -> dict[TopicPartition, int]:
    for each in theirs:
        if each.error is not None:
            raise as_kafka_error(each.error)
    return {TopicPartition(each.topic, each.partition): each.offset for each in theirs}

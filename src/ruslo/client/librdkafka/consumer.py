"""A consumer with Kafka's own settings, over librdkafka."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self

from ruslo.client.errors import UndecodableRecord
from ruslo.client.librdkafka.client import LibrdkafkaClient
from ruslo.client.librdkafka.consumed_record import (
    ConsumedRecord,
    Deserializer,
    PartitionEnd,
    RecordReader,
    partition_of,
    place_of,
)
from ruslo.client.librdkafka.consumer_progress import ConsumerProgress, Position
from ruslo.client.librdkafka.errors import as_kafka_error, translated
from ruslo.client.librdkafka.message_queue import MessageQueue
from ruslo.client.librdkafka.rebalances import RebalanceCallback, Rebalances
from ruslo.client.librdkafka.topic_pattern import posix_pattern
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.client.settings.tables import CONSUMER
from ruslo.client.settings.translation import consumer_settings
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError, RusloError
from ruslo.model.topics import TopicPartition
from ruslo.net.errors import RequestTimedOut

if TYPE_CHECKING:
    import confluent_kafka
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes | None)
    V = TypeVar("V", default=bytes | None)
    T = TypeVar("T")
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    T = TypeVar("T")

__all__ = ["END", "START", "ConsumedRecord", "Consumer", "PartitionEnd"]

START = -2
"""As an offset: the oldest record that is still there."""
END = -1
"""As an offset: what comes next."""

_NO_GROUP = "ruslo-without-group"
_RETRY_PAUSE_S = 0.05
_ITERATION_POLL_S = 1.0
_SLICE_S = 1.0
"""A question to librdkafka is asked anew after so long: in between Python hears Ctrl-C."""
_log = logging.getLogger("ruslo.client")


class Consumer(Generic[K, V]):
    """Reads partitions that it was assigned by hand, or as a member of a group after ``subscribe``.

    ``for record in consumer`` reads for ever; ``poll`` and ``batches`` give lists. With
    ``enable.auto.commit`` the offsets of records whose processing is over (the next ones were asked for) are
    committed by themselves; ``commit`` does it for all that were given out. Without ``group.id`` nothing is
    committed and no group is touched. A consumer belongs to one thread, and does not survive a fork.
    """

    def __init__(
        self,
        config: Mapping[str, ClientConfigValue],
        *,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
    ) -> None:
        import confluent_kafka

        settings = consumer_settings(config)
        self._settings = settings
        # librdkafka insists on a name even where no group takes part.
        named = settings.librdkafka if settings.has_group else {**settings.librdkafka, "group.id": _NO_GROUP}
        self._client = LibrdkafkaClient(confluent_kafka.Consumer, "consumer", CONSUMER, named)
        self._handle = self._client.handle
        self._reader = RecordReader(key_deserializer, value_deserializer)
        self._queue = MessageQueue(self._handle, settings.max_poll_records)
        self._progress = ConsumerProgress()
        self._taken: list[confluent_kafka.Message] = []
        """What was given out last, if somebody may take it back."""
        self.may_take_back = False
        self._subscribed = False
        self._probed = False
        self._rebalances = Rebalances(
            cooperative=settings.cooperative,
            begin=self._committed_positions if settings.read_committed else None,
            before_revoke=self._store_finished,
            after_loss=self._forget,
        )

    # -- what to read

    def subscribe(
        self,
        topics: Sequence[str] | re.Pattern[str],
        *,
        on_assign: RebalanceCallback | None = None,
        on_revoke: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Join the group for these topics, or for all whose whole name matches a pattern.

        Callbacks run within ``poll``. In ``on_assign``, ``seek`` says where to begin; in ``on_revoke``,
        ``commit`` is still possible; ``on_lost`` (else ``on_revoke``) comes when it is too late for that.
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
        """Leave the group, or give up what was assigned by hand."""
        self._client.check_usable()
        self._progress.finish()
        self._store_finished()
        with translated():
            self._handle.unsubscribe()
        self._subscribed = False
        self._queue.clear()

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets (START and END are offsets too)."""
        self._client.check_usable()
        self._forget(self.assignment())
        with translated():
            self._handle.assign(_places(positions))

    def assignment(self) -> list[TopicPartition]:
        self._client.check_usable()
        return [TopicPartition(place.topic, place.partition) for place in self._handle.assignment()]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset (START and END are offsets too)."""
        self._client.check_usable()
        if self._rebalances.seek(partition, offset):
            return
        place = _places({partition: offset})[0]
        self._retrying(lambda _: self._handle.seek(place), also=ErrorCode.INVALID_REQUEST)
        self._forget([partition])
        if offset >= 0:
            self._progress.give(partition, offset - 1, None)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Get nothing from these until ``resume``; the consumer stays a member of its group."""
        self._client.check_usable()
        chosen = list(partitions)
        with translated():
            self._handle.pause(_places(dict.fromkeys(chosen, END)))
            for partition in chosen:
                # What is here already must come again after resume.
                waiting = self._queue.first_offset(partition)
                if waiting is not None:
                    self._handle.seek(_places({partition: waiting})[0])
        self._queue.drop(chosen)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._client.check_usable()
        with translated():
            self._handle.resume(_places(dict.fromkeys(partitions, END)))

    # -- records

    def poll(self, timeout_s: float = 1.0) -> list[ConsumedRecord[K, V]]:
        """Up to ``max.poll.records`` records; empty when none came in time."""
        return [event for event in self.poll_events(timeout_s) if not isinstance(event, PartitionEnd)]

    def poll_events(self, timeout_s: float = 1.0) -> list[ConsumedRecord[K, V] | PartitionEnd]:
        """As ``poll``, with the ends of partitions if ``enable.partition.eof`` is set."""
        deadline = time.monotonic() + timeout_s
        self._ask_for_more()
        events = self._take(self._settings.max_poll_records)
        while not events:
            left_s = deadline - time.monotonic()
            # Also without any time: what has arrived is taken, and the group hears of its member.
            self._queue.fill(min(max(left_s, 0.0), _ITERATION_POLL_S))
            events = self._take(self._settings.max_poll_records)
            if not events:
                self._raise_permanent_error()
            if left_s <= 0:
                break
        return events

    def batches(self, max_wait_s: float = 1.0) -> Iterator[list[ConsumedRecord[K, V]]]:
        """Lists of one to ``max.poll.records`` records, for ever."""
        while self._client.unusable is None:
            records = self.poll(max_wait_s)
            if records:
                yield records

    def __iter__(self) -> Iterator[ConsumedRecord[K, V]]:
        return self

    def __next__(self) -> ConsumedRecord[K, V]:
        while not self.closed:
            record = self.next_within(_ITERATION_POLL_S)
            if record is not None:
                return record
        raise StopIteration

    def next_within(self, timeout_s: float) -> ConsumedRecord[K, V] | None:
        """The next record; None if none came in time."""
        self._ask_for_more()
        if not self._queue:
            self._queue.fill(timeout_s)
        events = self._take(1)
        if not events:
            self._raise_permanent_error()
        return events[0] if events and not isinstance(events[0], PartitionEnd) else None

    def take_back(self) -> None:
        """What was given out last has not reached anybody: it is still to come."""
        self._queue.put_back(self._taken)
        self._progress.take_back(partition_of(message) for message in self._taken)
        self._taken.clear()

    def next_ready(self) -> ConsumedRecord[K, V] | None:
        """The next record if that needs no call of librdkafka, and so no waiting."""
        if self._client.unusable is not None or not self._queue or self._queue.unserved:
            return None
        self._progress.finish()
        events = self._take(1)
        return events[0] if events and not isinstance(events[0], PartitionEnd) else None

    # -- offsets

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to be given out; None before the first one."""
        return self.positions().get(partition)

    def positions(self) -> dict[TopicPartition, int]:
        """The same for all partitions that records were given out of."""
        return {partition: place.offset for partition, place in self._progress.positions().items()}

    def commit(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        """Store the group's offsets and wait for the answer; without positions, of all that was given out."""
        places = self._to_commit(positions)
        if not places:
            return
        with translated():
            results = self._handle.commit(offsets=places, asynchronous=False)
        for place in results or ():
            if place.error is not None:
                error = as_kafka_error(place.error)
                where = TopicPartition(place.topic, place.partition)
                raise KafkaError(error.code, f"the offset of {where} was not committed: {error.message}")

    def commit_async(self, positions: Mapping[TopicPartition, int] | None = None) -> None:
        """The same without waiting; the setting ``on_commit``, a callable, hears how it went."""
        places = self._to_commit(positions)
        if places:
            with translated():
                self._handle.commit(offsets=places, asynchronous=True)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None where there is none.

        With ``isolation.level=read_committed`` an open transaction that moves them is waited for.
        """
        self._need_group("committed")
        chosen = _places(dict.fromkeys(partitions, END))

        def ask(slice_s: float) -> dict[TopicPartition, int | None]:
            found = self._handle.committed(chosen, slice_s)
            for place in found:
                if place.error is not None:
                    raise as_kafka_error(place.error)
            return {
                TopicPartition(place.topic, place.partition): place.offset if place.offset >= 0 else None
                for place in found
            }

        # The group may be changing: the next question carries the member's new epoch.
        return self._retrying(ask, timeout_s, also=ErrorCode.STALE_MEMBER_EPOCH)

    def group_metadata(self) -> object:
        """Who this member is; transactions send it along with offsets, so that a zombie's are refused."""
        self._need_group("group_metadata")
        self._client.check_usable()
        return self._handle.consumer_group_metadata()

    def partitions_for(self, topic: str, timeout_s: float | None = None) -> list[int]:
        """The topic's partitions; raises UNKNOWN_TOPIC_OR_PARTITION when it does not exist."""
        found = self._retrying(
            lambda slice_s: self._handle.list_topics(topic, slice_s).topics[topic], timeout_s
        )
        if found.error is not None:
            raise KafkaError(as_kafka_error(found.error).code, f"topic {topic!r} does not exist")
        return sorted(found.partitions)

    def offset_range(self, partition: TopicPartition, timeout_s: float | None = None) -> tuple[int, int]:
        """The oldest offset that is still there and the one that the next record will get."""
        place = _places({partition: END})[0]
        found = self._retrying(lambda slice_s: self._handle.get_watermark_offsets(place, slice_s), timeout_s)
        assert found is not None, "only a cached answer may be missing"
        return found

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """Per partition the first offset whose record is not older than the time; END where there is none."""

        def ask(slice_s: float) -> dict[TopicPartition, int]:
            found = self._handle.offsets_for_times(_places(times_ms), slice_s)
            for place in found:
                if place.error is not None:
                    raise as_kafka_error(place.error)
            return {TopicPartition(place.topic, place.partition): place.offset for place in found}

        return self._retrying(ask, timeout_s)

    # -- the end

    @property
    def closed(self) -> bool:
        return self._client.unusable is not None

    def close(self) -> None:
        """Leave the group; with ``enable.auto.commit`` everything that was given out counts as processed."""
        if self._client.unusable is None:
            self._progress.finish()
            self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._client.unusable is None:
            # The record at hand was not processed: it must come again.
            self._leave()

    def _leave(self) -> None:
        self._store_finished()
        self._handle.close()
        self._client.unusable = "the consumer is closed"
        self._queue.clear()

    def _ask_for_more(self) -> None:
        self._client.check_usable()
        self._progress.finish()
        self._taken.clear()
        if not self._queue or self._queue.unserved:
            self._store_finished()
            if self._queue:
                self._queue.fill(0)

    def _take(self, limit: int) -> list[ConsumedRecord[K, V] | PartitionEnd]:
        events: list[ConsumedRecord[K, V] | PartitionEnd] = []
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
                    events += self._hear(error, message)
            except RusloError as problem:
                # What came before it is given out first; then it is raised, and again until somebody seeks.
                if events:
                    break
                if not isinstance(problem, UndecodableRecord):
                    self._queue.pop()
                raise
            self._queue.pop()
            if self.may_take_back:
                self._taken.append(message)
        for message in last.values():
            place, offset = place_of(message)
            self._progress.give(place, offset, message.leader_epoch())
        return events

    def _hear(
        self, error: confluent_kafka.KafkaError, message: confluent_kafka.Message
    ) -> list[PartitionEnd]:
        """Connections and memberships are librdkafka's to restore; all else is the caller's to know."""
        from confluent_kafka import KafkaError as Theirs

        code = error.code()
        if code == Theirs._PARTITION_EOF:
            (topic, partition), offset = place_of(message)
            return [PartitionEnd(topic, partition, offset)]
        if code in (Theirs._ALL_BROKERS_DOWN, Theirs._TRANSPORT):
            return []
        ours = as_kafka_error(error)
        awaited = self._subscribed and ours.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if awaited or code == Theirs._MAX_POLL_EXCEEDED:
            _log.warning("%s", ours.message)
            return []
        raise ours

    def _raise_permanent_error(self) -> None:
        """What waiting does not help against; brokers are asked for it once."""
        self._client.raise_tls_error()
        last = self._client.last_error
        if last is not None and last.code == ErrorCode.NETWORK_EXCEPTION and not self._probed:
            self._probed = True
            self._client.raise_permanent_error()

    def _committed_positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to begin with new partitions, asked for here and not by librdkafka: when an open transaction
        holds an offset back and the assignment changes meanwhile, that takes the offset for none and goes to
        the beginning or the end of the partition."""
        if not partitions:
            return {}
        found = self.committed(partitions)
        return {place: offset for place, offset in found.items() if offset is not None}

    def _store_finished(self) -> None:
        finished = self._progress.take_to_store()
        if not finished or not self._settings.auto_commit:
            return
        from confluent_kafka import KafkaException

        try:
            self._handle.store_offsets(offsets=_positions(finished))
        except KafkaException as error:
            # The group has taken a partition away and is about to say so: its new owner reads on from what is
            # committed.
            _log.debug("offsets were not stored: %s", error)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        self._taken = [message for message in self._taken if partition_of(message) not in partitions]
        self._queue.drop(partitions)
        self._progress.forget(partitions)

    def _to_commit(
        self, positions: Mapping[TopicPartition, int] | None
    ) -> list[confluent_kafka.TopicPartition]:
        self._need_group("commit")
        self._client.check_usable()
        return _positions(self._progress.positions()) if positions is None else _places(positions)

    def _need_group(self, what: str) -> None:
        if not self._settings.has_group:
            raise ConfigError(f"{what} needs a group: set group.id, or assign partitions by hand")

    def _retrying(
        self, ask: Callable[[float], T], timeout_s: float | None = None, *, also: ErrorCode | None = None
    ) -> T:
        """Ask until the answer is no passing fault: a new topic's leader may not know yet that it leads."""
        self._client.check_usable()
        limit_s = self._settings.api_timeout_ms / 1000 if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        while True:
            try:
                with translated():
                    return ask(max(0.001, min(_SLICE_S, deadline - time.monotonic())))
            except KafkaError as error:
                passing = error.code.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not (passing or error.code == also):
                    raise
                if error.code == ErrorCode.NETWORK_EXCEPTION and not self._subscribed:
                    # In here librdkafka tells why; without a group nothing else happens.
                    self._queue.fill(0.0)
                    self._raise_permanent_error()
                if time.monotonic() + _RETRY_PAUSE_S >= deadline:
                    late = (
                        f"no answer within {limit_s:g} s: {error.message}{self._client.last_error_suffix()}"
                    )
                    raise RequestTimedOut(late) from error
            time.sleep(_RETRY_PAUSE_S)


def _names(topics: Sequence[str]) -> list[str]:
    if isinstance(topics, str):
        raise ConfigError(f"subscribe takes a list of topics: write [{topics!r}]")
    return list(topics)


def _places(positions: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    from confluent_kafka import TopicPartition as Place

    return [Place(partition.topic, partition.partition, offset) for partition, offset in positions.items()]


def _positions(positions: Mapping[TopicPartition, Position]) -> list[confluent_kafka.TopicPartition]:
    from confluent_kafka import TopicPartition as Place

    return [
        Place(partition.topic, partition.partition, position.offset, leader_epoch=position.leader_epoch)
        for partition, position in positions.items()
    ]

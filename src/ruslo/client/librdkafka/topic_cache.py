"""What a producer knows of topics: how many partitions each has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ruslo.client.librdkafka.client import LibrdkafkaClient
from ruslo.client.librdkafka.errors import as_kafka_error
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.errors import RequestTimedOut

if TYPE_CHECKING:
    import confluent_kafka

_ASK_S = 1.0
_ADDED_WITHIN_S = 1.0
_COMES_BY_ITSELF = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # created by being asked for, if the broker allows it
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class TopicCache:
    """A topic is asked for when it is first sent to, and again when what is known has become old."""

    def __init__(
        self,
        client: LibrdkafkaClient[confluent_kafka.Producer],
        *,
        max_block_ms: int,
        max_age_ms: int,
        retry_backoff_ms: int,
    ) -> None:
        self._client = client
        self._max_block_ms = max_block_ms
        self._max_age_s = max_age_ms / 1000
        self._pause_s = max(retry_backoff_ms, 10) / 1000
        self._counts: dict[str, int] = {}
        self._asked_at: dict[str, float] = {}
        self._unreachable = False

    def known(self, topic: str) -> int | None:
        """The number of partitions, if it is known and not old."""
        count = self._counts.get(topic)
        if count is not None and time.monotonic() - self._asked_at[topic] > self._max_age_s:
            return None
        return count

    def has(self, topic: str, partition: int | None) -> bool:
        """Whether a record may be sent there without asking; the age does not matter for that."""
        count = self._counts.get(topic)
        return count is not None and (partition is None or partition < count)

    def doubt(self, code: ErrorCode) -> None:
        """A record failed; if for want of its topic, that may hold for others too: ask again."""
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._counts.clear()

    def wait_for(self, topic: str, partition: int | None, deadline: float) -> int:
        """Ask until the topic, and the partition if one is named, exists; RequestTimedOut at the deadline.

        A topic that exists is asked for a partition that it does not have for a moment only: it may just have
        been added.
        """
        probed = False
        refused_at = deadline
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._missing(topic, partition)
            count = self._ask(topic, min(left, _ASK_S))
            if count is not None:
                self._counts[topic], self._asked_at[topic] = count, time.monotonic()
                if partition is None or partition < count:
                    return count
                refused_at = min(refused_at, time.monotonic() + _ADDED_WITHIN_S)
                if time.monotonic() >= refused_at:
                    raise self._no_partition(topic, partition, count)
            elif not probed and self._unreachable:
                probed = True
                self._client.raise_permanent_error()
            time.sleep(max(0.0, min(self._pause_s, deadline - time.monotonic())))

    def _ask(self, topic: str, timeout_s: float) -> int | None:
        import confluent_kafka

        try:
            found = self._client.handle.list_topics(topic, timeout_s).topics.get(topic)
        except confluent_kafka.KafkaException as error:
            self._passing(as_kafka_error(error.args[0]), topic)
            return None
        if found is None:
            return None
        if found.error is not None:
            self._passing(as_kafka_error(found.error), topic)
            return None
        return len(found.partitions) or None

    def _passing(self, error: KafkaError, topic: str) -> None:
        self._unreachable = error.code == ErrorCode.NETWORK_EXCEPTION
        if error.code not in _COMES_BY_ITSELF:
            raise KafkaError(error.code, f"{topic}: {error.message}") from None

    def _no_partition(self, topic: str, partition: int, count: int) -> KafkaError:
        have = "1 partition, number 0" if count == 1 else f"{count} partitions, 0 to {count - 1}"
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} has no partition {partition}: it has {have}. Choose one of them, or add some",
        )

    def _missing(self, topic: str, partition: int | None) -> KafkaError:
        count = self._counts.get(topic)
        if partition is not None and count is not None:
            return self._no_partition(topic, partition, count)
        why = (
            self._client.last_error_suffix()
            or "; create it, or let brokers do so (auto.create.topics.enable)"
        )
        return RequestTimedOut(
            f"topic {topic!r} was not found within {self._max_block_ms} ms (max.block.ms){why}"
        )

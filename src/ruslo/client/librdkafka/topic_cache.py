"""A producer's cache of partition counts by topic."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ruslo.client.librdkafka.client import LibrdkafkaClient
from ruslo.client.librdkafka.errors import as_kafka_error
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.net.errors import RequestTimedOut

if TYPE_CHECKING:
    import confluent_kafka

_METADATA_TIMEOUT_S = 1.0
_NEW_PARTITION_WAIT_S = 1.0
_RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # the request may create it (auto.create.topics.enable)
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class TopicCache:
    """Requests the metadata of a topic on the first send to it, and again when it has expired."""

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
        self._updated_at: dict[str, float] = {}
        self._unreachable = False

    def known(self, topic: str) -> int | None:
        """The number of partitions; None if it is unknown or expired."""
        count = self._counts.get(topic)
        if count is not None and time.monotonic() - self._updated_at[topic] > self._max_age_s:
            return None
        return count

    def has(self, topic: str, partition: int | None) -> bool:
        """Whether the topic, and the partition if one is given, is known to exist; expiry does not matter."""
        count = self._counts.get(topic)
        return count is not None and (partition is None or partition < count)

    def invalidate_after(self, code: ErrorCode) -> None:
        """Clear the cache after a record failed because its topic does not exist; others may be gone too."""
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._counts.clear()

    def wait_for(self, topic: str, partition: int | None, deadline: float) -> int:
        """Wait until the topic, and the partition if one is given, exists; RequestTimedOut at the deadline.

        The wait for a missing partition of an existing topic is short: it may just have been added.
        """
        probed = False
        give_up_at = deadline
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._missing(topic, partition)
            count = self._request(topic, min(left, _METADATA_TIMEOUT_S))
            if count is not None:
                self._counts[topic], self._updated_at[topic] = count, time.monotonic()
                if partition is None or partition < count:
                    return count
                give_up_at = min(give_up_at, time.monotonic() + _NEW_PARTITION_WAIT_S)
                if time.monotonic() >= give_up_at:
                    raise self._no_partition(topic, partition, count)
            elif not probed and self._unreachable:
                probed = True
                self._client.raise_permanent_error()
            time.sleep(max(0.0, min(self._pause_s, deadline - time.monotonic())))

    def _request(self, topic: str, timeout_s: float) -> int | None:
        import confluent_kafka

        try:
            found = self._client.handle.list_topics(topic, timeout_s).topics.get(topic)
        except confluent_kafka.KafkaException as error:
            self._raise_unless_retriable(as_kafka_error(error.args[0]), topic)
            return None
        if found is None:
            return None
        if found.error is not None:
            self._raise_unless_retriable(as_kafka_error(found.error), topic)
            return None
        return len(found.partitions) or None

    def _raise_unless_retriable(self, error: KafkaError, topic: str) -> None:
        self._unreachable = error.code == ErrorCode.NETWORK_EXCEPTION
        if error.code not in _RETRIABLE:
            raise KafkaError(error.code, f"{topic}: {error.message}") from None

    def _no_partition(self, topic: str, partition: int, count: int) -> KafkaError:
        have = "1 partition, number 0" if count == 1 else f"{count} partitions, 0 to {count - 1}"
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} has no partition {partition}: it has {have}. Use one, or add partitions",
        )

    def _missing(self, topic: str, partition: int | None) -> KafkaError:
        count = self._counts.get(topic)
        if partition is not None and count is not None:
            return self._no_partition(topic, partition, count)
        reason = (
            self._client.last_error_suffix() or ": create it, or set auto.create.topics.enable on brokers"
        )
        return RequestTimedOut(
            f"topic {topic!r} was not found within {self._max_block_ms} ms (max.block.ms){reason}"
        )

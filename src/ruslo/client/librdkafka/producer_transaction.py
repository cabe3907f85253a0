"""Transactions of a producer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Protocol, Self

from ruslo.client.errors import ProducerFenced, TransactionAborted
from ruslo.client.librdkafka.client import LibrdkafkaClient
from ruslo.client.librdkafka.errors import as_kafka_error
from ruslo.model.errors import ConfigError, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.errors import RequestTimedOut

if TYPE_CHECKING:
    import confluent_kafka

_CALL_MAX_S = 0.5
"""The longest call into librdkafka: Python handles Ctrl-C between calls."""
_RETRY_BACKOFF_S = 0.05


class OffsetSource(Protocol):
    """The consumer whose offsets a transaction commits."""

    def positions(self) -> Mapping[TopicPartition, int]: ...

    def group_metadata(self) -> object: ...


@dataclass(eq=False)
class Transactions:
    """Every step takes at most ``max.block.ms``. ``init`` fences older producers; ``begin`` calls it once."""

    _client: LibrdkafkaClient[confluent_kafka.Producer]
    _max_block_ms: int
    _: KW_ONLY
    configured: bool
    after_abort: Callable[[], None]

    def __post_init__(self) -> None:
        self._ready = False

    def init(self) -> None:
        if not self.configured:
            raise ConfigError("transactions need a transactional id: set transactional.id")
        self._run("init_transactions", self._client.handle.init_transactions)
        self._ready = True

    def begin(self) -> None:
        if not self._ready:
            self.init()
        self._run("begin_transaction", lambda _: self._client.handle.begin_transaction())

    def send_offsets(
        self, consumer: OffsetSource, positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Commit a consumer's positions with the transaction, by default those of all delivered records."""
        from confluent_kafka import TopicPartition as Theirs

        chosen = consumer.positions() if positions is None else positions
        if not chosen:
            return
        offsets = [Theirs(tp.topic, tp.partition, offset) for tp, offset in chosen.items()]
        metadata = consumer.group_metadata()
        send = self._client.handle.send_offsets_to_transaction
        self._run("send_offsets", lambda timeout_s: send(offsets, metadata, timeout_s))

    def commit(self) -> None:
        """Raises TransactionAborted if the commit failed, RequestTimedOut if its outcome is unknown."""
        self._run("commit_transaction", self._client.handle.commit_transaction)

    def abort(self) -> None:
        """Abort, drop queued records, and forget the failures of single records."""
        self._run("abort_transaction", self._client.handle.abort_transaction)
        self.after_abort()

    def _run(self, name: str, call: Callable[[float], object]) -> None:
        import confluent_kafka

        self._client.check_usable()
        deadline = time.monotonic() + self._max_block_ms / 1000
        while True:
            left_s = deadline - time.monotonic()
            try:
                call(max(0.0, min(_CALL_MAX_S, left_s)))
                return
            except confluent_kafka.KafkaException as error:
                problem: confluent_kafka.KafkaError = error.args[0]
                ours = as_kafka_error(problem)
                if isinstance(ours, ProducerFenced):
                    raise ours from error
                if problem.txn_requires_abort():
                    raise TransactionAborted(ours.code, f"{name}: {ours.message}") from error
                if not (problem.retriable() or isinstance(ours, RequestTimedOut)):
                    raise KafkaError(ours.code, f"{name}: {ours.message}") from error
                if time.monotonic() >= deadline:
                    expired = f"{name} did not complete within {self._max_block_ms} ms (max.block.ms)"
                    raise RequestTimedOut(expired + self._client.last_error_suffix()) from error
            time.sleep(_RETRY_BACKOFF_S)


class ProducerTransaction:
    """Commits when the block ends, aborts when an exception leaves it."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def send_offsets(
        self, consumer: OffsetSource, positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        self._transactions.send_offsets(consumer, positions)

    def __enter__(self) -> Self:
        self._transactions.begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._abort_because(error)
            return
        try:
            self._transactions.commit()
        except TransactionAborted as refused:
            self._abort_because(refused)
            raise

    def _abort_because(self, error: BaseException) -> None:
        """A failed abort does not hide the error: the coordinator aborts the transaction on timeout."""
        if isinstance(error, ProducerFenced):
            return
        try:
            self._transactions.abort()
        except KafkaError as failed:
            error.add_note(f"the transaction was not aborted either: {failed.message}")

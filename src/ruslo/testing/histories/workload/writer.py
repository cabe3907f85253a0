"""A transactional producer in its own process, which may be killed: ``python -m …workload.writer``.

Its arguments are the settings, the transactional id, and the name of this instance.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import count
from random import Random

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition

from ruslo.testing.histories.events import Append, End, FetchOffsets, Kind, SendOffsets
from ruslo.testing.histories.files import Recorder
from ruslo.testing.histories.workload.settings import WorkloadSettings, group_of, stop_event

CALL_TIMEOUT_S = 5.0
ATTEMPTS_MAX = 4
"""Together longer than the restart of a killed broker."""
NO_GROUP_OFFSET = -1001
"""The client's value for a group without a committed offset."""


class WriterLost(Exception):
    """This instance must end: it was fenced, or no broker responds."""


class TransactionalWriter:
    def __init__(self, settings: WorkloadSettings, transactional_id: str, recorder: Recorder) -> None:
        self._settings = settings
        self._group = group_of(transactional_id)
        self._recorder = recorder
        self._random = Random(recorder.process)
        self._numbers = count(1)
        self._position: int | None = None
        """The position in the source; None if it has to be fetched."""
        self._consumer = Consumer(
            {
                **settings.client(),
                "group.id": self._group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._producer = Producer(
            {
                **settings.client(),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": settings.transaction_timeout_ms,
                "linger.ms": 1,
            }
        )

    def run(self, stopping: threading.Event) -> None:
        try:
            self._call(lambda: self._producer.init_transactions(CALL_TIMEOUT_S))
            while not stopping.is_set():
                self._transaction(f"{self._recorder.process}.{next(self._numbers)}")
                stopping.wait(self._random.choice((0.0, 0.0, 0.02)))
        except WriterLost:
            return

    def _transaction(self, name: str) -> None:
        random = self._random
        self._call(self._producer.begin_transaction)
        can_commit = True
        for number in range(random.randint(1, 6)):
            self._append(name, f"{name}.{number}")
            if random.random() < 0.1:
                self._producer.poll(random.random() / 20)
        if random.random() < 0.4:
            can_commit = self._send_offsets(name)
        if can_commit and random.random() < 0.8:
            self._end(name, commit=True)
        else:
            self._end(name, commit=False)

    def _append(self, transaction: str, element: str) -> None:
        tp = self._random.choice(self._settings.topic_partitions)
        key = f"{tp}/{self._random.randrange(self._settings.keys)}"
        call = Append(transaction, tp, key, element)

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._recorder.complete(Kind.OK if error is None else Kind.INFO, call, str(error or ""))

        self._recorder.invoke(call)
        self._producer.produce(
            tp.topic, key=key, value=element, partition=tp.partition, on_delivery=delivered
        )

    # -- offsets ---------------------------------------------------------------------------------------------

    def _send_offsets(self, transaction: str) -> bool:
        """Returns whether the transaction can still be committed."""
        first = self._position if self._position is not None else self._committed_position()
        if first is None:
            return False
        source, end = self._settings.source, first + self._random.randint(1, 9)
        call = SendOffsets(transaction, self._group, source, first, end)
        metadata = self._consumer.consumer_group_metadata()
        self._recorder.invoke(call)
        sent = self._call(
            lambda: self._producer.send_offsets_to_transaction(
                [ClientPartition(source.topic, source.partition, end)], metadata, CALL_TIMEOUT_S
            )
        )
        self._recorder.complete(Kind.OK if sent else Kind.INFO, call)
        self._position = end
        return sent

    def _committed_position(self) -> int | None:
        call, source = FetchOffsets(self._group), self._settings.source
        self._recorder.invoke(call)
        try:
            (found,) = self._consumer.committed(
                [ClientPartition(source.topic, source.partition)], CALL_TIMEOUT_S
            )
        except KafkaException as error:
            self._recorder.complete(Kind.FAIL, call, str(error))
            return None
        if found.error is not None:
            self._recorder.complete(Kind.FAIL, call, str(found.error))
            return None
        offset = -1 if found.offset == NO_GROUP_OFFSET else found.offset
        self._recorder.complete(Kind.OK, FetchOffsets(self._group, False, ((source, offset),)))
        return max(offset, 0)

    # -- ends ------------------------------------------------------------------------------------------------

    def _end(self, transaction: str, *, commit: bool) -> None:
        call = End(transaction, commit)
        if commit:
            self._recorder.invoke(call)
            if self._call(lambda: self._producer.commit_transaction(CALL_TIMEOUT_S), call):
                self._recorder.complete(Kind.OK, call)
                return
            self._recorder.complete(Kind.INFO, call, "the transaction must be aborted")
            call = End(transaction, False)
        self._position = None
        self._recorder.invoke(call)
        if self._call(lambda: self._producer.abort_transaction(CALL_TIMEOUT_S), call):
            self._recorder.complete(Kind.OK, call)
        else:
            self._recorder.complete(Kind.INFO, call)
            raise WriterLost

    def _call(self, call: Callable[[], object], ends: End | None = None) -> bool:
        """Retry until the call succeeds; False if the transaction must be aborted."""
        for _ in range(ATTEMPTS_MAX):
            try:
                call()
            except KafkaException as exception:
                error = exception.args[0]
                assert isinstance(error, KafkaError)
                if error.txn_requires_abort():
                    return False
                if not error.retriable():
                    break
            else:
                return True
        if ends is not None:
            self._recorder.complete(Kind.INFO, ends, "gave up")
        raise WriterLost


def main() -> None:
    settings = WorkloadSettings.from_argument(sys.argv[1])
    with Recorder(settings.history, sys.argv[3]) as recorder:
        TransactionalWriter(settings, sys.argv[2], recorder).run(stop_event())


if __name__ == "__main__":
    main()

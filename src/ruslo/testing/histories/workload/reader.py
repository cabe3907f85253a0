"""A consumer of one isolation level in its own process: ``python -m …workload.reader``.

Its arguments are the settings, the isolation level, and its name. It restarts from the beginning every few
seconds, under another name, so that records are read several times and compared.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from itertools import count

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from ruslo.model.topics import TopicPartition
from ruslo.testing.histories.events import Isolation, Kind, ListEnds, Poll, ReadRange, SeenRecord
from ruslo.testing.histories.files import Recorder
from ruslo.testing.histories.workload.settings import WorkloadSettings, stop_event

CALL_TIMEOUT_S = 5.0
RESTART_INTERVAL_S = 8.0
LIST_ENDS_INTERVAL_S = 0.5
RETRY_BACKOFF_S = 0.1
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
ISOLATION_LEVELS = {
    Isolation.READ_COMMITTED: IsolationLevel.READ_COMMITTED,
    Isolation.READ_UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED,
}


class HistoryReader:
    """Reads all partitions from the beginning and records what it read."""

    def __init__(self, settings: WorkloadSettings, isolation: Isolation, recorder: Recorder) -> None:
        self._recorder = recorder
        self._isolation = isolation
        self._topic_partitions = settings.topic_partitions
        self.positions: defaultdict[TopicPartition, int] = defaultdict(int)
        self.at_end: set[TopicPartition] = set()
        """Partitions that were read to their end."""
        self._admin = AdminClient(settings.client())
        """Used to list ends: unlike a consumer, it returns leader epochs."""
        self._consumer = Consumer(
            {
                **settings.client(),
                "group.id": "not-used",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": str(isolation),
                "fetch.wait.max.ms": 50,
            }
        )
        self._consumer.assign(
            [ClientPartition(tp.topic, tp.partition, OFFSET_BEGINNING) for tp in settings.topic_partitions]
        )

    def poll(self, *, final_ends: dict[TopicPartition, int] | None = None) -> None:
        """``final_ends``: a partition that is read to its end has been read at least up to this offset."""
        self._recorder.invoke(Poll(self._isolation))
        records: defaultdict[TopicPartition, list[SeenRecord]] = defaultdict(list)
        ended: set[TopicPartition] = set()
        for message in self._consumer.consume(500, 0.1):
            topic, partition = message.topic(), message.partition()
            if topic is None or partition is None:
                continue
            tp = TopicPartition(topic, partition)
            error = message.error()
            if error is None:
                records[tp].append(_seen(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(tp)
        ranges = [self._read_range(tp, seen, tp in ended, final_ends or {}) for tp, seen in records.items()]
        ranges += [self._read_range(tp, [], True, final_ends or {}) for tp in ended - records.keys()]
        self.at_end |= ended
        self._recorder.complete(Kind.OK, Poll(self._isolation, tuple(ranges)))

    def list_ends(self, *, final: bool = False) -> dict[TopicPartition, int] | None:
        """The end offsets for this isolation level; None if the brokers did not respond."""
        self._recorder.invoke(ListEnds(self._isolation, final))
        try:
            listed = self._list_offsets()
        except KafkaException as error:
            self._recorder.complete(Kind.FAIL, ListEnds(self._isolation, final), str(error))
            return None
        ends = {tp: each.offset for tp, each in listed.items()}
        epochs = tuple(
            (tp, each.leader_epoch) for tp, each in listed.items() if each.leader_epoch is not None
        )
        self._recorder.complete(Kind.OK, ListEnds(self._isolation, final, tuple(ends.items()), epochs))
        return ends

    def _list_offsets(self) -> dict[TopicPartition, ListOffsetsResultInfo]:
        """Retries while brokers restart; raises KafkaException after the timeout."""
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while True:
            futures = self._admin.list_offsets(
                {ClientPartition(*tp): LATEST for tp in self._topic_partitions},
                isolation_level=ISOLATION_LEVELS[self._isolation],
                request_timeout=CALL_TIMEOUT_S,
            )
            try:
                ends = {TopicPartition(at.topic, at.partition): each.result() for at, each in futures.items()}
                # A new leader that does not know its end yet returns a logical offset, not an error.
                if all(each.offset >= 0 for each in ends.values()):
                    return ends
                raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_BACKOFF_S)

    def close(self) -> None:
        self._consumer.close()

    def _read_range(
        self,
        tp: TopicPartition,
        records: list[SeenRecord],
        ended: bool,
        final_ends: dict[TopicPartition, int],
    ) -> ReadRange:
        start = self.positions[tp]
        end = records[-1].offset + 1 if records else start
        if ended:
            # The last records may be control records, which consumers do not receive.
            end = max(end, final_ends.get(tp, 0))
        self.positions[tp] = end
        return ReadRange(tp, start, end, tuple(records))


def _seen(message: Message) -> SeenRecord:
    offset, key, value = message.offset(), message.key(), message.value()
    assert offset is not None
    assert key is not None
    assert value is not None
    return SeenRecord(offset, _text(key), _text(value))


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


def run_reader(
    settings: WorkloadSettings, isolation: Isolation, name: str, stopping: threading.Event
) -> None:
    for number in count(1):
        with Recorder(settings.history, f"{name}.{number}") as recorder:
            reader = HistoryReader(settings, isolation, recorder)
            restart_at, list_ends_at = time.monotonic() + RESTART_INTERVAL_S, 0.0
            while time.monotonic() < restart_at:
                if stopping.is_set():
                    reader.close()
                    return
                reader.poll()
                if time.monotonic() >= list_ends_at:
                    reader.list_ends()
                    list_ends_at = time.monotonic() + LIST_ENDS_INTERVAL_S
            reader.close()


def main() -> None:
    settings = WorkloadSettings.from_argument(sys.argv[1])
    run_reader(settings, Isolation(sys.argv[2]), sys.argv[3], stop_event())


if __name__ == "__main__":
    main()

"""A consumer of one isolation level in a process of its own: ``python -m …workload.reader``.

Its arguments are the settings, the isolation level, and its name. Now and then it begins anew, under another
name, so that old stretches are read again and compared.
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
from ruslo.testing.histories.events import Isolation, Kind, ListEnds, Poll, SeenRecord, Span
from ruslo.testing.histories.files import Recorder
from ruslo.testing.histories.workload.settings import WorkloadSettings
from ruslo.testing.histories.workload.stopping import stops_on_sigterm

CALL_S = 5.0
LIFE_S = 8.0
LOOK_S = 0.5
"""Between two questions for the ends of partitions."""
PAUSE_S = 0.1
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
ISOLATION_LEVELS = {
    Isolation.READ_COMMITTED: IsolationLevel.READ_COMMITTED,
    Isolation.READ_UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED,
}


class HistoryReader:
    """Reads all partitions from the beginning and writes down what it saw."""

    def __init__(self, settings: WorkloadSettings, isolation: Isolation, recorder: Recorder) -> None:
        self._recorder = recorder
        self._isolation = isolation
        self._places = settings.places
        self.positions: defaultdict[TopicPartition, int] = defaultdict(int)
        self.at_end: set[TopicPartition] = set()
        """Partitions whose end has been seen."""
        self._admin = AdminClient(settings.client())
        """It tells the leader epoch of an end; a consumer does not."""
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
            [ClientPartition(place.topic, place.partition, OFFSET_BEGINNING) for place in settings.places]
        )

    def poll(self, *, final_ends: dict[TopicPartition, int] | None = None) -> None:
        """``final_ends``: a partition whose end is reached has been read at least up to here."""
        self._recorder.invoke(Poll(self._isolation))
        records: defaultdict[TopicPartition, list[SeenRecord]] = defaultdict(list)
        ended: set[TopicPartition] = set()
        for message in self._consumer.consume(500, 0.1):
            topic, partition = message.topic(), message.partition()
            if topic is None or partition is None:
                continue
            place = TopicPartition(topic, partition)
            error = message.error()
            if error is None:
                records[place].append(_seen(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(place)
        spans = [self._span(place, seen, place in ended, final_ends or {}) for place, seen in records.items()]
        spans += [self._span(place, [], True, final_ends or {}) for place in ended - records.keys()]
        self.at_end |= ended
        self._recorder.complete(Kind.OK, Poll(self._isolation, tuple(spans)))

    def list_ends(self, *, final: bool = False) -> dict[TopicPartition, int] | None:
        """Where partitions end for this isolation level; None: nobody answered."""
        self._recorder.invoke(ListEnds(self._isolation, final))
        try:
            told = self._ask_for_ends()
        except KafkaException as error:
            self._recorder.complete(Kind.FAIL, ListEnds(self._isolation, final), str(error))
            return None
        ends = {place: each.offset for place, each in told.items()}
        epochs = tuple(
            (place, each.leader_epoch) for place, each in told.items() if each.leader_epoch is not None
        )
        self._recorder.complete(Kind.OK, ListEnds(self._isolation, final, tuple(ends.items()), epochs))
        return ends

    def _ask_for_ends(self) -> dict[TopicPartition, ListOffsetsResultInfo]:
        """Again and again, while brokers come and go; raises KafkaException when the time is over."""
        deadline = time.monotonic() + CALL_S
        while True:
            told = self._admin.list_offsets(
                {ClientPartition(*place): LATEST for place in self._places},
                isolation_level=ISOLATION_LEVELS[self._isolation],
                request_timeout=CALL_S,
            )
            try:
                ends = {TopicPartition(at.topic, at.partition): each.result() for at, each in told.items()}
                # That a new leader does not know its end yet comes as a logical offset, not as an error.
                if all(each.offset >= 0 for each in ends.values()):
                    return ends
                raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE_S)

    def close(self) -> None:
        self._consumer.close()

    def _span(
        self,
        place: TopicPartition,
        records: list[SeenRecord],
        ended: bool,
        final_ends: dict[TopicPartition, int],
    ) -> Span:
        start = self.positions[place]
        end = records[-1].offset + 1 if records else start
        if ended:
            # The last records may be markers, which no consumer is told of.
            end = max(end, final_ends.get(place, 0))
        self.positions[place] = end
        return Span(place, start, end, tuple(records))


def _seen(message: Message) -> SeenRecord:
    offset, key, value = message.offset(), message.key(), message.value()
    assert offset is not None
    assert key is not None
    assert value is not None
    return SeenRecord(offset, _text(key), _text(value))


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


def read_on(settings: WorkloadSettings, isolation: Isolation, name: str, stopping: threading.Event) -> None:
    for life in count(1):
        with Recorder(settings.history, f"{name}.{life}") as recorder:
            reader = HistoryReader(settings, isolation, recorder)
            ends_at, look_at = time.monotonic() + LIFE_S, 0.0
            while time.monotonic() < ends_at:
                if stopping.is_set():
                    reader.close()
                    return
                reader.poll()
                if time.monotonic() >= look_at:
                    reader.list_ends()
                    look_at = time.monotonic() + LOOK_S
            reader.close()


def main() -> None:
    settings = WorkloadSettings.from_argument(sys.argv[1])
    read_on(settings, Isolation(sys.argv[2]), sys.argv[3], stops_on_sigterm())


if __name__ == "__main__":
    main()

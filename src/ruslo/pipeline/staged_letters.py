"""Dead letters on their way into the sink's transaction: staged by tasks of the source, sent by its driver.

A task that runs twice stages its letters twice, and so does a source that a query reads twice; a letter says
which record it is, so that of each one is sent.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark import TaskContext

from ruslo.model.errors import StorageError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.sink.files import open_files
from ruslo.pipeline.sink.identity import BatchIdentity
from ruslo.pipeline.sink.staging import check_prepared
from ruslo.records.builder import build_batch
from ruslo.records.reader import check_crc, iter_batches, read_records
from ruslo.records.record import Header, Record
from ruslo.runs.dead_letters import OFFSET, PARTITION, REASON, TOPIC

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
_RUN_ID: Final = "spark.jobGroup.id"
"""Spark gives the jobs of a query's run its id as their group."""
_BATCH_BYTES: Final = 512 * 1024


def run_of(context: TaskContext) -> str:
    """Tells the attempts of a batch apart: after a restart another schema may find other records bad."""
    return context.getLocalProperty(_RUN_ID) or "run"


def about(source: TopicPartition, offset: int, reason: str) -> tuple[Header, ...]:
    """The headers that make a letter of a record."""
    return (
        (REASON, reason.encode(errors="replace")),
        (TOPIC, source.topic.encode()),
        (PARTITION, str(source.partition).encode()),
        (OFFSET, str(offset).encode()),
    )


def size_of(letter: Record) -> int:
    content = sum(len(name) + len(value or b"") for name, value in letter.headers)
    return content + len(letter.key or b"") + len(letter.value or b"")


def letter_batches(letters: Sequence[Record]) -> Iterator[bytearray]:
    """Batches of a usual size; a large letter is one by itself."""
    group: list[Record] = []
    room = _BATCH_BYTES
    for letter in letters:
        size = size_of(letter)
        if group and size > room:
            yield build_batch(group)
            group, room = [], _BATCH_BYTES
        group.append(letter._replace(offset=len(group)))
        room -= size
    if group:
        yield build_batch(group)


@dataclass(frozen=True, slots=True)
class LetterBox:
    """The staged letters of one batch in one run of its query."""

    location: str
    folder: str

    @classmethod
    def of(cls, location: str, identity: BatchIdentity, run_id: str) -> LetterBox:
        return cls(location, f"{identity.staging_folder}/letters-{run_id}")

    @classmethod
    def of_task(cls, location: str, sink_name: str) -> LetterBox:
        """Of the batch that the running task belongs to."""
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(QUERY_ID)
        batch_id = None if context is None else context.getLocalProperty(BATCH_ID)
        if context is None or query_id is None or batch_id is None:
            raise RuntimeError(
                f"Spark has set no {QUERY_ID} and {BATCH_ID}: letters are staged in streams only"
            )
        return cls.of(location, BatchIdentity(sink_name, query_id, int(batch_id)), run_of(context))

    def put(self, letters: Sequence[Record]) -> None:
        check_prepared(self.location)
        file = open_files(self.location).create(f"{self.folder}/{uuid.uuid4().hex}.batches")
        for batch in letter_batches(letters):
            file.write(batch)
        file.close()

    def is_used(self) -> bool:
        return bool(open_files(self.location).list(self.folder))

    def letters(self) -> list[Record]:
        """Each one once, in the order of their records; of a file that a killed task left, what is whole."""
        found: dict[tuple[bytes | None, ...], Record] = {}
        files = open_files(self.location)
        for name in files.list(self.folder):
            path = f"{self.folder}/{name}"
            file = files.open(path)
            data = memoryview(file.read_at(files.size(path) or 0, 0))
            file.close()
            for at, header in iter_batches(data):
                batch = data[at : at + header.size]
                if not check_crc(batch):
                    raise StorageError(f"{path} in {self.location} is damaged: restart the query")
                found |= {_place(letter): letter for letter in read_records(batch)}
        return [found[place] for place in sorted(found, key=_order)]

    def by_target(self, topic: str, partition_count: int) -> Mapping[TopicPartition, Iterator[bytearray]]:
        """Where they go: letters of one partition stay in their order."""
        targets: dict[TopicPartition, list[Record]] = {}
        for letter in self.letters():
            number = int(dict(letter.headers)[PARTITION] or b"0") % partition_count
            targets.setdefault(TopicPartition(topic, number), []).append(letter)
        return {target: letter_batches(letters) for target, letters in targets.items()}


def _place(letter: Record) -> tuple[bytes | None, ...]:
    headers = dict(letter.headers)
    return headers[TOPIC], headers[PARTITION], headers[OFFSET]


def _order(place: tuple[bytes | None, ...]) -> tuple[bytes, int, int]:
    topic, partition, offset = (part or b"0" for part in place)
    return topic, int(partition), int(offset)

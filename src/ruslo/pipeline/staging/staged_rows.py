"""Encoded rows that tasks leave for the driver: small ones in the task's result, large ones in a file."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c
from pyspark.sql.datasource import WriterCommitMessage

from ruslo.model.errors import StorageError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.staging.files import InputFile, OutputFile, open_files
from ruslo.pipeline.staging.folder import StagingFolder
from ruslo.pipeline.staging.identity import TaskBatch
from ruslo.records.batch import ATTRIBUTES_AT, read_header


class StagedBatch(NamedTuple):
    """``position`` counts in the data of the task."""

    target: TopicPartition
    position: int
    size: int


@dataclass(frozen=True, slots=True)
class StagedRows(WriterCommitMessage):
    """The result of one task. Its bytes are in ``data``, or in the file ``path`` of the staging folder."""

    host: str
    task: TaskBatch
    batches: tuple[StagedBatch, ...]
    size: int
    data: bytes = b""
    path: str | None = None


class Stage:
    """Collects the encoded batches of one task."""

    def __init__(self, folder: StagingFolder, path: str, memory_bytes: int) -> None:
        self._folder = folder
        self._path = path
        self._memory_bytes = memory_bytes
        self._batches: list[StagedBatch] = []
        self._memory: list[bytearray] = []
        self._file: OutputFile | None = None
        self._size = 0

    def add(self, target: TopicPartition, batch: bytearray) -> None:
        self._batches.append(StagedBatch(target, self._size, len(batch)))
        self._size += len(batch)
        if self._file is not None:
            self._file.write(batch)
            return
        self._memory.append(batch)
        if self._size > self._memory_bytes:
            self._folder.check_shared()
            self._file = open_files(self._folder.location).create(self._path)
            for staged in self._memory:
                self._file.write(staged)
            self._memory.clear()

    def close(self, task: TaskBatch) -> StagedRows:
        host, batches, size = socket.gethostname(), tuple(self._batches), self._size
        if self._file is None:
            return StagedRows(host, task, batches, size, data=b"".join(self._memory))
        self._file.close()
        return StagedRows(host, task, batches, size, path=self._path)

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
            open_files(self._folder.location).remove(self._path)


class StagedReader:
    """Reads what tasks have staged, one batch at a time."""

    def __init__(self, location: str, staged: Sequence[StagedRows]) -> None:
        self._location = location
        self._files = open_files(location)
        self._staged = staged
        self._open: dict[str, InputFile] = {}

    def check_complete(self) -> None:
        """Raise if a file is missing or truncated, before anything is sent."""
        for rows in self._staged:
            if rows.path is not None and self._files.size(rows.path) != rows.size:
                raise StorageError(
                    f"{rows.path}, staged by a task on {rows.host}, is missing or truncated in "
                    f"{self._location}: stagingPath must be a folder that the driver and all executors share"
                )

    def by_target(self) -> dict[TopicPartition, Iterator[bytearray]]:
        """The batches of each partition in the order of the tasks. Bytes are read lazily."""
        found: dict[TopicPartition, list[tuple[StagedRows, StagedBatch]]] = {}
        for rows in self._staged:
            for batch in rows.batches:
                found.setdefault(batch.target, []).append((rows, batch))
        return {target: self._read(listed) for target, listed in found.items()}

    def _read(self, listed: Iterable[tuple[StagedRows, StagedBatch]]) -> Iterator[bytearray]:
        for rows, (target, position, size) in listed:
            if rows.path is None:
                yield bytearray(memoryview(rows.data)[position : position + size])
                continue
            if rows.path not in self._open:
                self._open[rows.path] = self._files.open(rows.path)
            batch = self._open[rows.path].read_at(size, position)
            if len(batch) != size or crc32c(memoryview(batch)[ATTRIBUTES_AT:]) != read_header(batch).crc:
                raise StorageError(
                    f"the batch for {target} at byte {position} of {rows.path} in {self._location} is "
                    "damaged: restart the query, which stages the batch again"
                )
            yield batch

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def remove(self) -> None:
        self.close()
        for rows in self._staged:
            if rows.path is not None:
                self._files.remove(rows.path)

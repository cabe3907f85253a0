"""What tasks leave for the driver: encoded batches, few of them in the task's result, many in a file."""

from __future__ import annotations

import os
import socket
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c
from pyspark.sql.datasource import WriterCommitMessage

from ruslo.model.errors import ConfigError, StorageError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.sink.files import InputFile, OutputFile, open_files
from ruslo.records.batch import ATTRIBUTES_AT, read_header

if TYPE_CHECKING:
    from ruslo.pipeline.sink.batch_encoder import EncodedBatch

_PROBE = ".ruslo-staging"


class StagedBatch(NamedTuple):
    """Where a batch lies in the data of its task."""

    target: TopicPartition
    position: int
    size: int


class TaskBatch(NamedTuple):
    """The micro-batch that a task belongs to, as Spark tells it; None for the tasks of a batch job."""

    query_id: str | None = None
    batch_id: int | None = None
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class StagedRows(WriterCommitMessage):
    """What one task has made. The bytes are in ``data``, or in the file ``path`` of the staging folder."""

    host: str
    task: TaskBatch
    batches: tuple[StagedBatch, ...]
    size: int
    data: bytes = b""
    path: str | None = None


@dataclass(frozen=True, slots=True)
class StagingPlace:
    """The staging folder as the driver saw it; ``token`` proves to a task that it sees the same one."""

    location: str
    token: str

    @classmethod
    def prepare(cls, location: str | None) -> StagingPlace:
        """Called on the driver. Without a location it is a temporary folder, which serves one machine."""
        place = location or f"{tempfile.gettempdir()}/ruslo-staging-{os.getuid()}"
        try:
            open_files(place).create_once(_PROBE, uuid.uuid4().hex.encode())
            return cls(place, _read_probe(place))
        except OSError as error:
            raise ConfigError(f"stagingPath={place} cannot be used by the driver: {error}") from error

    def check_shared(self) -> None:
        """Called in a task: raise unless this machine sees the driver's folder."""
        try:
            found = _read_probe(self.location)
        except OSError as error:
            found = f"{error}"
        if found != self.token:
            raise ConfigError(
                f"executor {socket.gethostname()} does not see the driver's staging folder {self.location}: "
                "set option stagingPath to a folder that the driver and all executors share (NFS, s3://…, "
                "hdfs://…), or raise stagingMemory so that less needs files"
            )


def check_prepared(location: str) -> None:
    """Called in a task that has no place of its driver's: raise unless a driver has prepared this folder."""
    if open_files(location).size(_PROBE) is None:
        raise ConfigError(
            f"{socket.gethostname()} does not see the staging folder {location} that the sink has prepared: "
            "set option stagingPath of source and sink to a folder that the driver and all executors share"
        )


def _read_probe(location: str) -> str:
    probe = open_files(location).open(_PROBE)
    try:
        return probe.read_at(64, 0).decode(errors="replace")
    finally:
        probe.close()


class Stage:
    """Collects the batches of one task."""

    def __init__(self, place: StagingPlace, path: str, memory_bytes: int) -> None:
        self._place = place
        self._path = path
        self._memory_bytes = memory_bytes
        self._batches: list[StagedBatch] = []
        self._memory: list[bytearray] = []
        self._file: OutputFile | None = None
        self._size = 0

    def add(self, batch: EncodedBatch) -> None:
        self._batches.append(StagedBatch(batch.target, self._size, len(batch.records)))
        self._size += len(batch.records)
        if self._file is not None:
            self._file.write(batch.records)
            return
        self._memory.append(batch.records)
        if self._size > self._memory_bytes:
            self._place.check_shared()
            self._file = open_files(self._place.location).create(self._path)
            for records in self._memory:
                self._file.write(records)
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
            open_files(self._place.location).remove(self._path)


class StagedReader:
    """Reads back what tasks have staged, a batch at a time."""

    def __init__(self, location: str, staged: Sequence[StagedRows]) -> None:
        self._location = location
        self._files = open_files(location)
        self._staged = staged
        self._open: dict[str, InputFile] = {}

    def check_complete(self) -> None:
        """Raise if a file is missing or cut short, before anything is sent."""
        for rows in self._staged:
            if rows.path is not None and self._files.size(rows.path) != rows.size:
                raise StorageError(
                    f"{rows.path}, staged by a task on {rows.host}, is not (or not whole) in "
                    f"{self._location}: stagingPath must be a folder that the driver and all executors share"
                )

    def by_target(self) -> dict[TopicPartition, Iterator[bytearray]]:
        """By partition its batches, in the order of the tasks; bytes are read when they are asked for."""
        places: dict[TopicPartition, list[tuple[StagedRows, StagedBatch]]] = {}
        for rows in self._staged:
            for batch in rows.batches:
                places.setdefault(batch.target, []).append((rows, batch))
        return {target: self._read(listed) for target, listed in places.items()}

    def _read(self, places: Iterable[tuple[StagedRows, StagedBatch]]) -> Iterator[bytearray]:
        for rows, (target, position, size) in places:
            if rows.path is None:
                yield bytearray(memoryview(rows.data)[position : position + size])
                continue
            if rows.path not in self._open:
                self._open[rows.path] = self._files.open(rows.path)
            batch = self._open[rows.path].read_at(size, position)
            if len(batch) != size or crc32c(memoryview(batch)[ATTRIBUTES_AT:]) != read_header(batch).crc:
                raise StorageError(
                    f"the batch for {target} at byte {position} of {rows.path} in {self._location} is "
                    "damaged: restart the query, it will be made again"
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

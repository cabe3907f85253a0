"""Histories in files: one JSON object per line, so clients in any language can write them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

import msgspec

from ruslo.testing.histories.digest import MalformedHistory
from ruslo.testing.histories.events import Call, Event, Kind

SUFFIX = ".jsonl"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)


class Recorder:
    """Records the events of a process. An event survives the process when ``invoke`` has returned."""

    def __init__(self, folder: Path, process: str) -> None:
        self.process = process
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{process}{SUFFIX}").open("ab", buffering=0)

    def invoke(self, call: Call) -> None:
        self.complete(Kind.INVOKE, call)

    def complete(self, kind: Kind, call: Call, note: str = "") -> None:
        event = Event(time.monotonic_ns(), self.process, kind, call, note)
        self._file.write(_encoder.encode(event) + b"\n")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def save(path: Path, history: Iterable[Event]) -> None:
    path.write_bytes(b"".join(_encoder.encode(event) + b"\n" for event in history))


def load(path: Path | str) -> Iterator[Event]:
    """The events of a file, or of all files in a folder. A truncated last line is ignored."""
    path = Path(path)
    for file in sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]:
        lines = file.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], 1):
            try:
                yield _decoder.decode(line)
            except msgspec.DecodeError as error:
                raise MalformedHistory(f"{file}, line {number}: {error}") from error

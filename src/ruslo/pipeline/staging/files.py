"""Files in the staging folder, local or on a file system that pyarrow knows."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from ruslo.model.errors import ConfigError

if TYPE_CHECKING:
    from pyarrow import fs


class OutputFile(Protocol):
    def write(self, data: bytes | bytearray, /) -> object: ...
    def close(self) -> object: ...


class InputFile(Protocol):
    def read_at(self, size: int, position: int) -> bytearray:
        """Returns fewer than ``size`` bytes at the end of the file."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """Paths are relative to the folder. Files are not renamed or synced: what a crash leaves is not read."""

    def create(self, path: str) -> OutputFile: ...
    def create_once(self, path: str, data: bytes) -> None:
        """Create a small file unless it exists; of several concurrent callers one succeeds."""
        ...

    def open(self, path: str) -> InputFile: ...
    def size(self, path: str) -> int | None:
        """None if the file does not exist."""
        ...

    def list(self, path: str) -> list[str]:
        """The names in a folder; empty if the folder does not exist."""
        ...

    def touched_s(self, path: str) -> float | None:
        """When the newest file in a folder was written, in seconds since 1970; None without files."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""
        ...


def open_files(location: str) -> Files:
    """An absolute path, or the URI of a file system that pyarrow knows (``s3://``, ``gs://``, ``hdfs://``)."""
    if location.startswith("file://"):
        location = location.removeprefix("file://")
    if "://" in location:
        return _RemoteFiles(location)
    if not os.path.isabs(location):
        raise ConfigError(f"stagingPath={location} is used on several machines: give an absolute path")
    return _LocalFiles(Path(location))


class _LocalFiles:
    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self, path: str) -> OutputFile:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("wb")

    def create_once(self, path: str, data: bytes) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            return
        # The content is complete before the file gets its name, and only one link succeeds.
        draft = target.with_name(f"{target.name}.{uuid.uuid4().hex}")
        draft.write_bytes(data)
        with contextlib.suppress(FileExistsError):
            os.link(draft, target)
        draft.unlink()

    def open(self, path: str) -> InputFile:
        return _LocalInput(self._root / path)

    def size(self, path: str) -> int | None:
        try:
            return (self._root / path).stat().st_size
        except FileNotFoundError:
            return None

    def list(self, path: str) -> list[str]:
        try:
            return os.listdir(self._root / path)
        except FileNotFoundError:
            return []

    def touched_s(self, path: str) -> float | None:
        times: list[float] = []
        for entry in (self._root / path).rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # its owner may be removing it
                if entry.is_file():
                    times.append(entry.stat().st_mtime)
        return max(times, default=None)

    def remove(self, path: str) -> None:
        target = self._root / path
        if target.is_dir():
            # Another attempt may be clearing up the same folder.
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)


class _LocalInput:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def read_at(self, size: int, position: int) -> bytearray:
        data = bytearray(size)
        filled = os.preadv(self._descriptor, [data], position)
        return data if filled == size else data[:filled]

    def close(self) -> None:
        os.close(self._descriptor)


class _RemoteFiles:
    def __init__(self, uri: str) -> None:
        from pyarrow import fs

        try:
            self._system, self._root = fs.FileSystem.from_uri(uri)
        except (OSError, ValueError) as error:
            raise ConfigError(f"stagingPath={uri}: {error}") from error

    def create(self, path: str) -> OutputFile:
        target = self._at(path)
        self._system.create_dir(target.rpartition("/")[0], recursive=True)
        return cast("OutputFile", self._system.open_output_stream(target))

    def create_once(self, path: str, data: bytes) -> None:
        if self.size(path) is None:
            file = self.create(path)
            file.write(data)
            file.close()

    def open(self, path: str) -> InputFile:
        return _RemoteInput(self._system, self._at(path))

    def size(self, path: str) -> int | None:
        return cast("int | None", self._system.get_file_info(self._at(path)).size)

    def list(self, path: str) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(self._at(path), allow_not_found=True)
        return [info.base_name for info in self._system.get_file_info(selector)]

    def touched_s(self, path: str) -> float | None:
        from pyarrow import fs

        selector = fs.FileSelector(self._at(path), allow_not_found=True, recursive=True)
        infos = self._system.get_file_info(selector)
        return max((info.mtime.timestamp() for info in infos if info.type == fs.FileType.File), default=None)

    def remove(self, path: str) -> None:
        from pyarrow import fs

        target = self._at(path)
        kind = self._system.get_file_info(target).type
        with contextlib.suppress(FileNotFoundError):  # another attempt may have removed it
            if kind == fs.FileType.Directory:
                self._system.delete_dir(target)
            elif kind == fs.FileType.File:
                self._system.delete_file(target)

    def _at(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}" if path else self._root


class _RemoteInput:
    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self._file = system.open_input_file(path)

    def read_at(self, size: int, position: int) -> bytearray:
        return bytearray(self._file.read_at(size, position))

    def close(self) -> None:
        self._file.close()

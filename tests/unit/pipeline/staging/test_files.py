"""The same folder as a path and as a file system of pyarrow."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline.staging import files as files_module
from ruslo.pipeline.staging.files import Files, open_files


@pytest.fixture(params=["path", "file uri", "pyarrow"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "pyarrow":
        return files_module._RemoteFiles(f"file://{tmp_path}")
    return open_files(str(tmp_path) if request.param == "path" else f"file://{tmp_path}")


def write(folder: Files, path: str, data: bytes) -> None:
    file = folder.create(path)
    file.write(data)
    file.close()


def test_a_file_is_read_at_any_position(folder: Files) -> None:
    write(folder, "a/b/one", b"0123456789")
    file = folder.open("a/b/one")
    assert [bytes(file.read_at(3, 4)), bytes(file.read_at(100, 8))] == [b"456", b"89"]
    file.close()
    assert (folder.size("a/b/one"), folder.size("a/b/two")) == (10, None)


def test_folders_are_listed_and_removed(folder: Files) -> None:
    for name in ("7", "8", "x"):
        write(folder, f"q/{name}/f", b"1")
    assert sorted(folder.list("q")) == ["7", "8", "x"]
    folder.remove("q/7")
    folder.remove("q/8/f")
    folder.remove("q/none")
    assert sorted(folder.list("q")) == ["8", "x"]
    assert folder.size("q/8/f") is None
    assert folder.list("nowhere") == []


def test_the_time_of_the_last_write(folder: Files) -> None:
    before_s = time.time() - 2
    write(folder, "q/7/f", b"1")
    touched_s = folder.touched_s("q")
    assert touched_s is not None
    assert before_s < touched_s < time.time() + 2
    assert folder.touched_s("nowhere") is None


def test_a_file_is_created_once(folder: Files) -> None:
    folder.create_once("probe", b"first")
    folder.create_once("probe", b"second")
    file = folder.open("probe")
    assert file.read_at(10, 0) == b"first"
    file.close()


def test_one_of_several_concurrent_creations_succeeds(tmp_path: Path) -> None:
    folder = open_files(str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: folder.create_once("probe", b"%d" % n), range(32)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["probe"]


@pytest.mark.parametrize("location", ["relative/path", "nosuch://place"])
def test_an_invalid_location_is_rejected(location: str) -> None:
    with pytest.raises(ConfigError, match="stagingPath="):
        open_files(location)

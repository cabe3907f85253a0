from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from ruslo.storage.dir_lock import DirLock
from ruslo.storage.local_disk import LocalDisk
from tests.unit.storage.workbench import Workbench


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with one partition of ten batches, the third damaged."""
    directory = tmp_path / "data"
    directory.mkdir()
    bench = Workbench(directory)
    bench.append_many(10)
    bench.log.close(bench.clock.ms)
    path = directory / "t-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 10 - 2] ^= 1
    path.write_bytes(content)
    return directory


def ruslo(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["log", *arguments], catch_exceptions=False)


def test_verify_reports_damaged_batches(data: Path) -> None:
    result = ruslo("verify", str(data))
    assert result.exit_code == 1
    assert f"{data}/t-0: damaged, 9 records in 9 batches" in result.stdout
    assert "its checksum is wrong" in result.stdout
    assert "1 of 1 partitions are damaged" in result.stderr
    rows = json.loads(ruslo("verify", str(data / "t-0"), "-o", "json").stdout)["partitions"]
    assert [(each["kind"], each["offset"]) for each in rows[0]["findings"]] == [("records", 2)]


def test_repair_changes_nothing_without_execute(data: Path, tmp_path: Path) -> None:
    before = (data / "t-0" / f"{0:020d}.log").read_bytes()
    result = ruslo("repair", str(data))
    assert result.exit_code == 0
    assert "69 bytes from offset 2" in result.stdout
    assert "would be dropped" in result.stdout
    assert (data / "t-0" / f"{0:020d}.log").read_bytes() == before
    done = ruslo("repair", str(data), "--execute", "--keep", str(tmp_path / "kept"))
    assert done.exit_code == 0
    assert (tmp_path / "kept" / "t-0" / f"{0:020d}.log").read_bytes() == before
    verified = ruslo("verify", str(data))
    assert verified.exit_code == 0
    assert verified.stdout.startswith("1 of 1 partitions OK; 9 records in 9 batches, ")
    assert f"{data}/t-0: OK, 9 records" in ruslo("verify", str(data), "--all").stdout
    assert ruslo("repair", str(data), "--execute").stdout == "nothing to repair\n"


def test_a_failed_repair_does_not_hide_the_others(data: Path) -> None:
    shutil.copytree(data / "t-0", data / "s-0")
    (data / "s-0" / "partition.metadata").write_text("version: 0\n")
    result = ruslo("repair", str(data), "--execute")
    assert result.exit_code == 1
    assert f"{data}/s-0: not repaired: " in result.stdout
    assert f"{data}/t-0/{0:020d}.log: 69 bytes from offset 2" in result.stdout
    assert "1 of 2 damaged partitions were not repaired" in result.stderr
    again = json.loads(ruslo("repair", str(data), "--execute", "-o", "json").stdout)["partitions"]
    assert [(Path(each["path"]).name, bool(each["failure"])) for each in again] == [("s-0", True)]


def test_repair_rejects_a_directory_in_use(data: Path) -> None:
    lock = DirLock(LocalDisk(str(data)))
    try:
        for path in (data, data / "t-0"):
            result = ruslo("repair", str(path), "--execute")
            assert result.exit_code == 1
            assert "is in use" in result.output
    finally:
        lock.release(remove=True)


def test_directories_and_topics_exclude_each_other(data: Path) -> None:
    for arguments in ([], [str(data), "--topic", "t"]):
        result = ruslo("verify", *arguments)
        assert result.exit_code == 2

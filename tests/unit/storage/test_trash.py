from __future__ import annotations

from pathlib import Path

from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.trash import Trash
from tests.unit.storage.workbench import ManualClock


def test_files_are_deleted_when_they_are_due(tmp_path: Path) -> None:
    clock = ManualClock()
    trash = Trash(LocalDisk(str(tmp_path)), clock)
    file, directory = tmp_path / "f.deleted", tmp_path / "t-0.x-delete"
    file.write_bytes(b"")
    directory.mkdir()
    (directory / "f").write_bytes(b"")
    trash.add_directory(str(directory), 50)
    trash.add_files([str(file), str(tmp_path / "gone already")], 10)
    assert trash.take_due() is None
    clock.ms += 10
    removal = trash.take_due()
    assert removal is not None
    removal.run()
    assert not file.exists()
    assert directory.exists()
    clock.ms += 40
    removal = trash.take_due()
    assert removal is not None
    removal.run()
    assert not directory.exists()
    assert len(trash) == 0

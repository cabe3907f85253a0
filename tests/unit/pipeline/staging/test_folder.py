from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.model.errors import ConfigError
from ruslo.pipeline.staging.folder import StagingFolder


def test_a_task_rejects_a_folder_that_is_not_the_drivers(tmp_path: Path) -> None:
    folder = StagingFolder.prepare(str(tmp_path))
    folder.check_shared()
    Path(folder.location, ".ruslo-staging").write_text("another machine's")
    with pytest.raises(ConfigError, match="does not see the driver's staging folder"):
        folder.check_shared()


def test_preparing_a_folder_again_keeps_its_token(tmp_path: Path) -> None:
    folder = StagingFolder.prepare(str(tmp_path))
    assert StagingFolder.prepare(folder.location) == folder


def test_the_default_is_a_temporary_folder() -> None:
    folder = StagingFolder.prepare(None)
    folder.check_shared()
    assert Path(folder.location).is_absolute()


def test_a_folder_that_cannot_be_created_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be used by the driver"):
        StagingFolder.prepare(str(tmp_path / "file" / "staging"))

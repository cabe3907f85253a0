from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.pipeline.class_archive import SWITCH, archive_path, java_options


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_java_uses_the_archive_if_it_exists(cache: Path) -> None:
    assert java_options() == ""
    archive = archive_path()
    assert archive is not None
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in java_options().split()


def test_another_java_has_another_archive(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = archive_path()
    (cache / "bin").mkdir()
    (cache / "bin/java").touch(0o755)
    (cache / "release").write_text('JAVA_VERSION="21"')
    monkeypatch.setenv("JAVA_HOME", str(cache))
    assert archive_path() not in (None, first)


def test_the_archive_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "off")
    assert archive_path() is None


def test_no_archive_in_a_folder_whose_name_has_a_blank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    assert archive_path() is None

from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.pipeline.cache_folder import cache_folder


def test_compiled_code_is_cached_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("numba") == tmp_path / "ruslo" / "numba"
    assert cache_folder("numba").is_dir()


def test_compiled_code_is_cached_in_a_temporary_folder_without_a_writable_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cache_folder("numba").name.startswith("ruslo-numba-")

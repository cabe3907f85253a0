from __future__ import annotations

from pathlib import Path

import pytest

from codegen import generate


def test_generated_files_are_up_to_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["generate.py", "--check"])
    assert generate.main() == 0, capsys.readouterr().err


def test_check_detects_changes_and_generating_undoes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "messages").mkdir()
    monkeypatch.setattr(generate, "PROTOCOL_DIR", tmp_path)
    count = len(generate.generated_files())
    monkeypatch.setattr("sys.argv", ["generate.py"])
    assert generate.main() == 0
    assert capsys.readouterr().out == f"{count} files, {count} written, 0 removed\n"

    edited = tmp_path / "messages" / "vote_request.py"
    generated = edited.read_text()
    edited.write_text(generated + "# by hand\n")
    (tmp_path / "messages" / "forgotten.py").write_text("")
    monkeypatch.setattr("sys.argv", ["generate.py", "--check"])
    assert generate.main() == 1
    assert capsys.readouterr().err.splitlines() == [
        "out of date: forgotten.py; run python codegen/generate.py",
        "out of date: vote_request.py; run python codegen/generate.py",
    ]

    monkeypatch.setattr("sys.argv", ["generate.py"])
    assert generate.main() == 0
    assert capsys.readouterr().out == f"{count} files, 1 written, 1 removed\n"
    assert edited.read_text() == generated

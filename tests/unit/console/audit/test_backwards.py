from __future__ import annotations

import io

import pytest

from ruslo.console.audit import backwards
from ruslo.console.audit.backwards import lines_backwards


def read(data: bytes, end: int | None = None) -> list[tuple[int, bytes]]:
    return list(lines_backwards(io.BytesIO(data), len(data) if end is None else end))


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 1000])
def test_lines_in_reverse_with_their_positions(monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    monkeypatch.setattr(backwards, "BLOCK_BYTES", block_bytes)
    assert read(b"one\ntwo\n\nthree\n") == [(9, b"three"), (4, b"two"), (0, b"one")]
    assert read(b"one\ntwo\nthr") == [(4, b"two"), (0, b"one")], "the last line is still being written"
    assert read(b"one\ntwo\nthree\n", end=8) == [(4, b"two"), (0, b"one")]
    assert read(b"") == read(b"\n") == read(b"unfinished") == []


def test_a_line_without_end_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backwards, "BLOCK_BYTES", 10)
    monkeypatch.setattr(backwards, "LINE_MAX_BYTES", 20)
    found = read(b"first\n" + b"x" * 200 + b"\nlast\n")
    assert [line for _, line in found if line] == [b"last", b"first"]
    assert len(found) > 5, "the caller can count its work"

"""Recorded events survive the process and are read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.testing.histories import (
    Append,
    End,
    Isolation,
    Kind,
    MalformedHistory,
    Poll,
    ReadRange,
    Recorder,
    SeenRecord,
    check,
    load,
    save,
)
from tests.support.txns.histories import A, HistoryBuilder


def history() -> HistoryBuilder:
    history = HistoryBuilder()
    history.append("t", A, "a", "ä")
    history.offsets("t", 0, 3)
    history.commit("t")
    history.poll(A, 0, 3, {0: "a", 1: "ä"})
    history.list_end(A, 3, final=True)
    history.fetch_offset(3, final=True)
    return history


def test_a_saved_history_is_loaded(tmp_path: Path) -> None:
    events = history().events
    save(tmp_path / "history.jsonl", events)
    assert list(load(tmp_path / "history.jsonl")) == events


def test_the_files_of_a_folder_are_one_history(tmp_path: Path) -> None:
    events = history().events
    for process in ("p", "r"):
        save(tmp_path / f"{process}.jsonl", [event for event in events if event.process == process])
    assert sorted(load(tmp_path), key=lambda event: event.time_ns) == events


def test_an_invocation_is_recorded_before_the_call(tmp_path: Path) -> None:
    with Recorder(tmp_path, "p") as recorder:
        recorder.invoke(End("t", True))
        (invoked,) = load(tmp_path)
        assert (invoked.process, invoked.kind, invoked.call) == ("p", Kind.INVOKE, End("t", True))
        recorder.complete(Kind.INFO, End("t", True), "timed out")
    _, completed = load(tmp_path)
    assert completed.note == "timed out"
    assert completed.time_ns >= invoked.time_ns
    assert check(load(tmp_path)).transactions == {"unknown": 1}


def test_a_truncated_last_line_is_ignored(tmp_path: Path) -> None:
    save(tmp_path / "p.jsonl", history().events)
    whole = (tmp_path / "p.jsonl").read_bytes()
    (tmp_path / "p.jsonl").write_bytes(whole[:-10])
    assert list(load(tmp_path)) == history().events[:-1]


def test_an_invalid_event_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(b'{"time_ns": 1}\n')
    with pytest.raises(MalformedHistory, match=r"p\.jsonl, line 1: .*process"):
        list(load(tmp_path))


def test_the_json_fields_of_an_event(tmp_path: Path) -> None:
    """Clients in other languages write them."""
    (tmp_path / "p.jsonl").write_text(
        '{"time_ns": 1, "process": "p", "kind": "invoke", "call": {"type": "append", "transaction": "t", '
        '"place": ["orders", 0], "key": "k", "element": "e"}}\n'
        '{"time_ns": 2, "process": "r", "kind": "ok", "call": {"type": "poll", '
        '"isolation": "read_committed", "spans": [[["orders", 0], 0, 1, [[0, "k", "e"]]]]}}\n'
    )
    append, poll = load(tmp_path)
    assert append.call == Append("t", A, "k", "e")
    assert poll.call == Poll(Isolation.READ_COMMITTED, (ReadRange(A, 0, 1, (SeenRecord(0, "k", "e"),)),))

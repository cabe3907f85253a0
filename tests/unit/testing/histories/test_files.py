"""What a process writes down survives it and is read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.testing.histories import End, Kind, MalformedHistory, Recorder, check, load, save
from tests.support.txns.histories import A, Story


def story() -> Story:
    story = Story()
    story.append("t", A, "a", "ä")
    story.offsets("t", 0, 3)
    story.commit("t")
    story.poll(A, 0, 3, {0: "a", 1: "ä"})
    story.list_end(A, 3, final=True)
    story.fetch_offset(3, final=True)
    return story


def test_a_history_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    events = story().events
    save(tmp_path / "history.jsonl", events)
    assert list(load(tmp_path / "history.jsonl")) == events


def test_the_files_of_a_folder_are_one_history(tmp_path: Path) -> None:
    events = story().events
    for process in ("p", "r"):
        save(tmp_path / f"{process}.jsonl", [event for event in events if event.process == process])
    assert sorted(load(tmp_path), key=lambda event: event.time_ns) == events


def test_what_a_process_was_about_to_do_is_there_before_it_does_it(tmp_path: Path) -> None:
    with Recorder(tmp_path, "p") as recorder:
        recorder.invoke(End("t", True))
        (invoked,) = load(tmp_path)
        assert (invoked.process, invoked.kind, invoked.call) == ("p", Kind.INVOKE, End("t", True))
        recorder.complete(Kind.INFO, End("t", True), "timed out")
    _, completed = load(tmp_path)
    assert completed.note == "timed out"
    assert completed.time_ns >= invoked.time_ns
    assert check(load(tmp_path)).transactions == {"unknown": 1}


def test_a_line_cut_by_a_crash_is_left_out(tmp_path: Path) -> None:
    save(tmp_path / "p.jsonl", story().events)
    whole = (tmp_path / "p.jsonl").read_bytes()
    (tmp_path / "p.jsonl").write_bytes(whole[:-10])
    assert list(load(tmp_path)) == story().events[:-1]


def test_what_is_no_event_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(b'{"time_ns": 1}\n')
    with pytest.raises(MalformedHistory, match=r"p\.jsonl, line 1: .*process"):
        list(load(tmp_path))

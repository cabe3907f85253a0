from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ruslo.console.audit import search as module
from ruslo.console.audit.events import AuditEvent, AuditFilter
from ruslo.console.audit.following import FollowedLog, read_new
from ruslo.console.audit.search import AuditPage, search

ALL = AuditFilter()


def line(second: int, principal: str = "User:alice") -> str:
    time = datetime.fromtimestamp(second, UTC).isoformat(timespec="milliseconds")
    event = {"time": time, "node": 1, "event": "denied", "principal": principal, "host": "::1"}
    return json.dumps(event) + "\n"


def write(path: Path, seconds: Iterable[int]) -> str:
    path.write_text("".join(map(line, seconds)))
    return str(path)


def seconds(events: Iterable[AuditEvent]) -> list[int]:
    return [event.time_ms // 1000 for event in events]


def all_pages(paths: list[str], limit: int, wanted: AuditFilter = ALL) -> list[AuditPage]:
    pages = [search(paths, wanted, limit)]
    while pages[-1].next_page:
        pages.append(search(paths, wanted, limit, pages[-1].next_page))
    return pages


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
def test_pages_of_several_logs_are_newest_first(tmp_path: Path, limit: int) -> None:
    paths = [write(tmp_path / "a", [1, 4, 5, 9]), write(tmp_path / "b", [2, 3, 8]), write(tmp_path / "c", [])]
    pages = all_pages(paths, limit)
    assert [second for page in pages for second in seconds(page.events)] == [9, 8, 5, 4, 3, 2, 1]
    assert all(len(page.events) <= limit for page in pages)


def test_events_that_arrive_later_do_not_move_the_pages(tmp_path: Path) -> None:
    path = write(tmp_path / "a", range(10))
    first = search([path], ALL, 4)
    with open(path, "a") as file:
        file.write(line(99))
    assert seconds(search([path], ALL, 4, first.next_page).events) == [5, 4, 3, 2]


def test_a_log_that_was_rotated_begins_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a"
    first = search([write(path, range(10))], ALL, 4)
    path.rename(tmp_path / "a.1")
    assert seconds(search([write(path, [20, 21])], ALL, 4, first.next_page).events) == [21, 20]
    assert seconds(search([str(path)], ALL, 4, "nonsense").events) == [21, 20]


def test_a_search_stops_before_the_wanted_time_and_at_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a", range(100))
    assert seconds(search([path], AuditFilter(from_ms=98_000), 100).events) == [99, 98]
    monkeypatch.setattr(module, "SCAN_MAX_BYTES", 1000)
    page = search([path], AuditFilter(principal="bob"), 100)
    assert (page.events, page.is_incomplete, page.next_page != "") == ([], True, True)


def test_files_and_lines_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(line(1) + "hello\n" + line(2))
    page = search([str(tmp_path / "missing"), str(path)], ALL, 10)
    assert seconds(page.events) == [2, 1]
    assert page.unreadable_lines == 1
    assert "missing cannot be read: No such file or directory" in page.problems[0]


def test_new_events_are_followed_through_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, [1])
    logs = [FollowedLog(str(path)), FollowedLog(str(tmp_path / "b"))]
    assert read_new(logs) == []
    with path.open("a") as file:
        file.write(line(2) + line(3)[:20])
    write(tmp_path / "b", [5])
    assert seconds(read_new(logs)) == [5, 2]
    with path.open("a") as file:
        file.write(line(3)[20:])
    assert seconds(read_new(logs)) == [3]
    path.rename(tmp_path / "a.1")
    assert read_new(logs) == [], "logrotate is moving it"
    write(path, [7])
    assert seconds(read_new(logs)) == [7]

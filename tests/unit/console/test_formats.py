from __future__ import annotations

import time

import pytest

from ruslo.console.formats import (
    ago,
    brief_addresses,
    bytes_per_second,
    count,
    duration,
    moment,
    per_second,
    plural,
    rate,
    setting,
    size,
    visible,
    with_unit,
)


def test_invisible_characters_are_shown_by_code_point() -> None:
    assert visible("a\u202eb\u2066c\x00d\x1b[31m") == "a⟨U+202E⟩b⟨U+2066⟩c⟨U+0000⟩d⟨U+001B⟩[31m"
    assert visible("two\nlines\tand a tab") == "two\nlines\tand a tab"
    assert visible("борис 👩\u200d👧 می\u200cخواهم") == "борис 👩\u200d👧 می\u200cخواهم"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.25, "0.2"),
        (9.96, "10"),
        (42.4, "42"),
        (1500, "1.5k"),
        (2.5e6, "2.5M"),
        (3e9, "3.0G"),
    ],
)
def test_rates(number: float | None, text: str) -> None:
    assert rate(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.25, "250 ms"),
        (3, "3 s"),
        (61, "1 min 1 s"),
        (900, "15 min"),
        (7260, "2 h 1 min"),
        (86400, "24 h"),
        (604800, "7 d"),
        (200000, "2 d 7 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_moments_are_in_utc_and_never_fail() -> None:
    assert moment(1700000000123) == "2023-11-14 22:13:20.123Z"
    assert moment(-1) == "–"
    assert moment(2**62) == f"{2**62:.0f} ms"


def test_ago() -> None:
    now_ms = time.time() * 1000
    assert ago(now_ms) == "now"
    assert ago(now_ms - 120_500) == "2 min ago"
    assert ago(now_ms + 120_500) == "in 2 min"
    assert ago(None) == "–"


def test_counts_and_sizes() -> None:
    assert (count(1234567), count(None)) == ("1\u202f234\u202f567", "–")
    assert (size(2048), size(-1), size(None)) == ("2.0 KiB", "–", "–")
    assert (plural(1, "topic"), plural(2, "topic")) == ("1 topic", "2 topics")


def test_unknown_values_have_no_unit() -> None:
    assert (per_second(None), per_second(1500)) == ("–", "1.5k/s")
    assert (bytes_per_second(None), bytes_per_second(2048)) == ("–", "2.0 KiB/s")


@pytest.mark.parametrize(
    ("name", "value", "means"),
    [
        ("retention.ms", "604800000", "7 d"),
        ("segment.bytes", "1073741824", "1.0 GiB"),
        ("flush.ms", str(2**63 - 1), "no limit"),
        ("flush.messages", str(2**63 - 1), "no limit"),
        ("flush.messages", "1000", ""),
        ("retention.ms", "-1", "no limit"),
        ("log.retention.bytes", "-1", "no limit"),
        ("local.retention.ms", "-2", "as without tiered storage"),
        ("compression.gzip.level", "-1", ""),
        ("retention.bytes", "512", ""),
        ("min.insync.replicas", "2000", ""),
        ("message.timestamp.type", "CreateTime", ""),
    ],
)
def test_configs_are_shown_with_their_unit(name: str, value: str, means: str) -> None:
    assert setting(value, name) == means
    assert with_unit(value, name) == (f"{value} ({means})" if means else value)


def test_several_addresses_are_abbreviated() -> None:
    assert brief_addresses("a:9092") == "a:9092"
    assert brief_addresses("a:9092,b:9092,c:9092") == "a:9092 +2"

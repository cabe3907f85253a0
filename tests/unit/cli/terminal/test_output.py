from __future__ import annotations

import pytest

from ruslo.cli.terminal.output import human_bytes, print_fields, table_lines


def test_tables_are_aligned_with_numbers_on_the_right() -> None:
    assert table_lines(["NAME", "COUNT", "NOTE"], [("a", 5, None), ("longer", 1234, [1, 2])]) == [
        "NAME    COUNT  NOTE",
        "a           5  -",
        "longer   1234  1,2",
    ]


def test_an_empty_table_has_only_a_heading() -> None:
    assert table_lines(["A", "LONG"], []) == ["A  LONG"]


def test_fields(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields([("Name", "x"), ("Long name", True), ("Ratio", 0.5)])
    assert capsys.readouterr().out == "Name:       x\nLong name:  yes\nRatio:      0.50\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**30, "5.0 GiB"), (3 * 2**50, "3072.0 TiB")],
)
def test_sizes(size: int, text: str) -> None:
    assert human_bytes(size) == text

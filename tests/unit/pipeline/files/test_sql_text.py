from __future__ import annotations

import pytest

from ruslo.pipeline.files.sql_text import problems_of, tables_of


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM orders", ["orders"]),
        ("select a.x from orders a join `my table` b on a.id = b.id", ["orders", "my table"]),
        ("SELECT * FROM a, b WHERE a.x IN (1, 2) ORDER BY a.x, y", ["a", "b"]),
        ("WITH big AS (SELECT * FROM orders) SELECT * FROM big JOIN c USING (id)", ["orders", "c"]),
        ("WITH t(x, y) AS (SELECT 1, 2), u AS (SELECT * FROM t) SELECT * FROM u", []),
        ("SELECT extract(DAY FROM at), trim(BOTH ' ' FROM name) FROM orders", ["orders"]),
        ("SELECT * FROM (SELECT * FROM inner_one) x LEFT JOIN (SELECT 1 FROM b) y", ["inner_one", "b"]),
        (
            "SELECT * FROM orders WHERE EXISTS (SELECT 1 FROM paid WHERE paid.id = orders.id)",
            ["orders", "paid"],
        ),
        ("SELECT * FROM range(5), orders", ["orders"]),
        ("SELECT * FROM db.stored JOIN orders", ["orders"]),
        ("SELECT a FROM t WHERE a IS DISTINCT FROM b", ["t"]),
        ("SELECT DISTINCT a FROM t", ["t"]),
        ("SELECT f FROM t LATERAL VIEW explode(xs) e AS f", ["t"]),
        ("SELECT count(*) FROM t GROUP BY window(at, '5 minutes'), shop", ["t"]),
        ("SELECT 'FROM nowhere' -- FROM comment\nFROM /* FROM x */ t", ["t"]),
        ("FROM orders |> WHERE a > 1 |> SELECT b", ["orders"]),
        ("SELECT 1 FROM a UNION ALL SELECT 2 FROM b", ["a", "b"]),
        ("TABLE orders", ["orders"]),
        ("SELECT transform(xs, x -> x + 1) FROM t", ["t"]),
    ],
)
def test_the_tables_that_a_query_reads(sql: str, names: list[str]) -> None:
    assert [read.name for read in tables_of(sql)] == names
    assert problems_of(sql) == []


@pytest.mark.parametrize(
    ("sql", "message", "line", "column"),
    [
        ("SELCT a FROM b", "cannot start with 'SELCT'", 1, 1),
        ("INSERT INTO a SELECT 1", "cannot start with 'INSERT'", 1, 1),
        ("SELECT (a FROM b", "unclosed '('", 1, 8),
        ("SELECT a)\nFROM b", "unmatched ')'", 1, 9),
        ("SELECT xs[0) FROM b", "unmatched ')'", 1, 12),
        ("SELECT a,\n  b,\nFROM c", "nothing comes after this comma", 2, 4),
        ("SELECT a,, b FROM c", "nothing comes after this comma", 1, 9),
        ("SELECT 'it''s FROM b", "unclosed text", 1, 12),
        ("SELECT `a FROM b", "unclosed name in backquotes", 1, 8),
        ("SELECT 1 /* and", "unclosed comment", 1, 10),
        ("SELECT 1; SELECT 2", "must be one statement", 1, 9),
        ("  ", "the query is empty", 1, 1),
    ],
)
def test_problems_have_a_line_and_a_column(sql: str, message: str, line: int, column: int) -> None:
    (problem,) = problems_of(sql)
    assert message in problem.message
    assert (problem.line, problem.column) == (line, column)


def test_the_position_of_a_table() -> None:
    (read,) = tables_of("SELECT a,\n       b\nFROM   orders")
    assert (read.line, read.column) == (3, 8)


def test_a_misspelt_first_word_has_a_suggestion() -> None:
    assert problems_of("SELCT 1")[0].fix == "Did you mean 'SELECT'?"
    assert problems_of("MERGE INTO x")[0].fix == "Start the query with SELECT or WITH."

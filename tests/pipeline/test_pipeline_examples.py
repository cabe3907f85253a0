"""The examples of pipeline files, run by ``ruslo pipeline test`` in Spark without a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from tests.pipeline.pipelines import EXAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = [*sorted(EXAMPLES.glob("*.yaml")), EXAMPLES / "copy_topic.py"]


def pipeline(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *map(str, arguments)], catch_exceptions=False)


def test_the_examples_of_the_documentation_pass(spark: SparkSession) -> None:
    result = pipeline("test", *FILES, "-o", "json")
    report = json.loads(result.stdout)
    assert [entry for entry in report["examples"] if not entry["passed"]] == []
    assert (result.exit_code, report["ok"]) == (0, True)
    assert {entry["pipeline"] for entry in report["examples"]} == {
        "filter-and-enrich",
        "join-with-table",
        "windows",
        "sessions",
        "deduplicate",
        "history-then-live",
        "files-to-topic",
        "topic-to-files",
        "copy-topic",
    }


def test_the_files_of_init_pass_lint_and_test(spark: SparkSession, tmp_path: Path) -> None:
    for name, options in (("sql.yaml", ()), ("python.yaml", ("--python",))):
        path = tmp_path / name
        assert pipeline("init", path, *options).exit_code == 0
        assert pipeline("lint", path).stdout == f"{path}: no mistakes\n"
        result = pipeline("test", path)
        assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "1 of 1 examples passed")
    assert "already exists" in pipeline("init", tmp_path / "sql.yaml").stderr


FAILING = """\
source: {name: orders, type: topic, topic: orders, schema: "id INT, shop STRING, amount DOUBLE"}
steps:
  - name: sums
    sql: SELECT shop, sum(amount) AS amount FROM orders GROUP BY shop
sink: {type: topic, topic: sums, mode: update}
checkpoint: c
examples:
  - name: wrong sum
    given: [{id: 1, shop: a, amount: 0.1}, {id: 2, shop: a, amount: 0.2}, {id: 3, shop: b, amount: 1}]
    expect: [{shop: a, amount: 0.3}, {shop: b, amount: 7}]
  - name: wrong column
    given: []
    expect: [{shopp: a}]
  - name: wrong type
    given: [{id: 1, shop: a, amount: 1}]
    expect: [{shop: a, amount: much}]
"""


def test_a_failing_example_shows_the_difference(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(FAILING)
    result = pipeline("test", path)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:5] == [
        "FAIL  p: wrong sum",
        f"      {path}:8:5",
        "      sums: 1 of 2 expected rows were produced",
        '        - {"shop": "b", "amount": 7.0}   expected, but missing',
        '        + {"shop": "b", "amount": 1.0}   not expected',
    ]
    assert "unknown column 'shopp'. Did you mean 'shop'?" in result.stdout
    assert "the expected rows do not fit the view's columns" in result.stdout
    assert lines[-1] == "0 of 3 examples passed"
    chosen = json.loads(pipeline("test", path, "-k", "sum", "-o", "json").stdout)
    (view,) = chosen["examples"][0]["views"]
    assert view["missing"] == [{"shop": "b", "amount": 7.0}]
    assert view["surplus"] == [{"shop": "b", "amount": 1.0}]


def test_a_pipeline_without_examples_fails(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(FAILING[: FAILING.index("examples:")])
    result = pipeline("test", path)
    assert (result.exit_code, "No examples found" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT shop, sum(amont) AS amount FROM orders GROUP BY shop", "amont"),
        ("SELECT shop FROM orders GROUP shop", "PARSE_SYNTAX_ERROR"),
        ("SELECT no_such_function(shop) FROM orders", "no_such_function"),
    ],
)
def test_lint_with_spark_finds_more_errors(
    spark: SparkSession, tmp_path: Path, query: str, message: str
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(FAILING.replace("SELECT shop, sum(amount) AS amount FROM orders GROUP BY shop", query))
    assert pipeline("lint", path).exit_code == 0
    result = pipeline("lint", path, "--spark", "-o", "json")
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)["findings"]
    assert (finding["rule"], finding["line"]) == ("spark", 3)
    assert message in finding["message"]


PAGE = (EXAMPLES.parents[1] / "docs" / "pipelines.md").read_text()


def block(language: str, containing: str) -> str:
    """A code block of the documentation."""
    blocks = PAGE.split(f"```{language}\n")[1:]
    return next(found.partition("```")[0] for found in blocks if containing in found.partition("```")[0])


def test_the_first_file_of_the_documentation_passes(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "big-orders.yaml"
    path.write_text(block("yaml", "name: big-orders"))
    assert pipeline("test", path).stdout.splitlines()[-1] == "1 of 1 examples passed"


BROKEN = """\
source:
  name: orders
  type: topic
  topic: orders
  schema: id BIGINT, amount DOUBL
steps:
  - name: big
    sql: SELECT * FROM order WHERE amount > 100
sink:
  type: topic
  topic: big
  key: id
checkpoint: state
triger: 1s
"""


def test_the_lint_output_in_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    result = pipeline("lint", "broken.yaml")
    assert result.exit_code == 1
    assert result.stdout in block("console", "lint broken.yaml")

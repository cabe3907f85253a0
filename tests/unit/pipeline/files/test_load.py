"""The findings of lint about whole files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.pipeline.files.load import load_pipeline, load_pipelines
from ruslo.pipeline.files.model import OnError, Pipeline, Watermark
from ruslo.pipeline.keys.finding import Severity

GOOD = """\
name: shop
sources:
  orders:
    type: topic
    topic: [orders, more-orders]
    schema: {id: BIGINT, customer: STRING}
    watermark: {column: _timestamp, delay: 10m}
  customers: {type: table, topic: customers, schema: name STRING}
steps:
  - name: named
    sql: SELECT o.id, c.name FROM known o JOIN Customers c ON o.customer = c._key
  - name: known
    sql: |
      SELECT * FROM orders
      WHERE customer IS NOT NULL
sink: {type: topic, topic: named, key: id, from: named}
trigger: 10s
checkpoint: checkpoints/shop
on_error: {restarts: 3, delay: 2s}
examples:
  - name: works
    given: {orders: [{id: 1, customer: a}], customers: [{_key: a, name: Ann}]}
    expect: [{id: 1, name: Ann}]
"""

BLOCK = "    sql: |\n      SELECT * FROM orders\n      WHERE customer IS NOT NULL\n"


def found(tmp_path: Path, text: str, name: str = "p.yaml") -> list[tuple[int, int, str, str]]:
    path = tmp_path / name
    path.write_text(text)
    return [
        (f.location.line, f.location.column, f.rule, f"{f.message}. {f.fix}")
        for f in load_pipeline(path).findings
    ]


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def valid(tmp_path: Path, text: str = GOOD, name: str = "p.yaml") -> Pipeline:
    path = tmp_path / name
    path.write_text(text)
    return load_pipeline(path).valid()


def test_valid_file_becomes_a_pipeline(tmp_path: Path) -> None:
    pipeline = valid(tmp_path)
    assert pipeline.name == "shop"
    assert [entry.name for entry in pipeline.inputs] == ["orders", "customers"]
    assert pipeline.inputs[0].watermark == Watermark("_timestamp", 600_000)
    assert [step.name for step in pipeline.steps] == ["known", "named"], (
        "each step comes after the steps that it reads"
    )
    assert pipeline.steps[1].reads == ("known", "Customers")
    assert pipeline.outputs[0].view == "named"
    assert pipeline.trigger_ms == 10_000
    assert pipeline.on_error == OnError(3, 2_000, 60_000)
    assert pipeline.is_stream
    assert pipeline.examples[0].expect == {"named": [{"id": 1, "name": "Ann"}]}


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "rule", "message"),
    [
        ("trigger: 10s", "triger: 10s", 17, 1, "unknown-key", "Did you mean 'trigger'?"),
        ("trigger: 10s", "trigger: often", 17, 10, "duration", "Write 500ms, 10s, 5m, 1h30m or 7d or once"),
        ("type: table", "type: tabel", 8, 21, "unknown-type", "unknown type 'tabel' of source"),
        ("    type: topic\n", "", 4, 5, "missing-key", "source 'orders' needs a 'type'"),
        ("checkpoint: checkpoints/shop\n", "", 1, 1, "missing-checkpoint", "Add 'checkpoint: checkpoints/"),
        ("FROM orders", "FROM order", 14, 21, "undefined-view", "Did you mean 'orders'?"),
        ("from: named", "from: nmaed", 16, 44, "undefined-view", "Did you mean 'named'?"),
        ("FROM known o", "FROM named o", 10, 5, "cycle", "named → named"),
        ("customer IS NOT NULL", "(customer IS NOT NULL", 15, 13, "sql", "unclosed '('"),
        ("id: BIGINT", "id: BIGINTT", 6, 18, "schema", "Did you mean 'bigint'?"),
        ("name: known", "name: Orders", 12, 5, "duplicate-view", "first defined in line 3"),
        ("name: known", "name: not-a-name", 12, 11, "view-name", "letters, digits and underscores"),
        ("name: shop", "name: my shop", 1, 1, "name", "invalid pipeline name 'my shop'"),
        ("topic: named,", "topic: orders,", 16, 45, "loop", "read and written"),
        ("topic: named,", "topic: 'a b',", 16, 28, "topic-name", "invalid topic name"),
        ("key: id,", "key: [id],", 16, 40, "wrong-type", "must be text, not a list"),
        ("trigger: 10s", "dead_letters: orders", 17, 1, "loop", "is also read"),
        ("restarts: 3", "restarts: -1", 19, 22, "out-of-range", "at least 0"),
        ("on_error: {restarts: 3, delay: 2s}", "on_error: sotp", 19, 11, "choice", "Did you mean 'stop'?"),
        ("delay: 10m}", "dealy: 10m}", 7, 37, "unknown-key", "Did you mean 'delay'?"),
        ("{orders: [{id: 1, customer: a}]", "{orders: [{idd: 1}]", 21, 5, "example", "unknown column 'idd'"),
        ("given: {orders:", "given: {ordres:", 21, 5, "example", "Did you mean 'orders'?"),
        (BLOCK, "    python: nope:f\n", 13, 13, "python", "unknown module 'nope'"),
        ("sink: {type: topic,", "sink: {mode: complete, type: topic,", 16, 8, "sink", "mode: update"),
        ("type: topic\n", "type: topic\n    on_decode_error: deadletter\n", 3, 3, "missing-key", "dead_"),
    ],
)  # fmt: skip
def test_findings_have_a_location_and_a_fix(
    tmp_path: Path, old: str, new: str, line: int, column: int, rule: str, message: str
) -> None:
    findings = found(tmp_path, changed(old, new))
    assert any(
        (at_line, at_column, at_rule) == (line, column, rule) and message in text
        for at_line, at_column, at_rule, text in findings
    ), findings


@pytest.mark.parametrize(
    ("source", "sink", "own", "loops"),
    [
        ("a:1", "b:1", "c:1", False),
        ("a:1", None, "c:1", False),
        (None, "b:1", "c:1", False),
        ("a:1", "a:1", "c:1", True),
        ("c:1", None, "c:1", True),
    ],
)
def test_topics_of_different_clusters_may_have_the_same_name(
    tmp_path: Path, source: str | None, sink: str | None, own: str, loops: bool
) -> None:
    def at(cluster: str | None) -> str:
        return "" if cluster is None else f", bootstrap: '{cluster}'"

    text = (
        f"source: {{type: topic, topic: orders, value: binary{at(source)}}}\n"
        f"sink: {{type: topic, topic: orders, value_column: value{at(sink)}}}\n"
        f"bootstrap: '{own}'\n"
        "checkpoint: state\n"
    )
    assert [rule for _, _, rule, _ in found(tmp_path, text)] == (["loop"] if loops else [])


def test_all_errors_are_reported_at_once_and_in_order(tmp_path: Path) -> None:
    text = (
        changed("topic: customers", "topik: customers")
        .replace("10s", "soon")
        .replace("FROM orders", "FROM order")
    )
    assert [(line, rule) for line, _, rule, _ in found(tmp_path, text)] == [
        (8, "missing-key"),
        (8, "unknown-key"),
        (14, "undefined-view"),
        (17, "duration"),
    ]


def test_an_error_does_not_cause_further_errors(tmp_path: Path) -> None:
    rules = [rule for _, _, rule, _ in found(tmp_path, changed("schema: name STRING", "schema: name STRNG"))]
    assert rules == ["schema"], "the step that reads customers is valid"


def test_unused_views_are_warnings(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(changed("from: named", "from: known"))
    loaded = load_pipeline(path)
    assert {f.rule for f in loaded.findings} == {"unused-view"}
    assert {f.severity for f in loaded.findings} == {Severity.WARNING}
    assert loaded.pipeline is not None


def test_a_single_source_needs_no_name_and_steps_are_optional(tmp_path: Path) -> None:
    text = "source: {type: topic, topic: a, value: string}\nsink: {type: console}\ncheckpoint: c\n"
    pipeline = valid(tmp_path, text, "my-copy.yaml")
    assert (pipeline.name, pipeline.outputs[0].view) == ("my-copy", "source")


def test_a_pipeline_of_tables_needs_no_checkpoint(tmp_path: Path) -> None:
    text = "source: {type: files, path: in, format: csv, watch: false}\nsink: {type: topic, topic: a}\n"
    assert not valid(tmp_path, text).is_stream


def test_a_share_group_has_one_sink(tmp_path: Path) -> None:
    source = "source: {type: topic, topic: a, value: string, share_group: workers}\ncheckpoint: c\n"
    assert valid(tmp_path, source + "sink: {type: console}\n").inputs[0].source.share_group == "workers"
    sinks = "sinks: {one: {type: console, from: source}, two: {type: console, from: source}}\n"
    assert [finding[2] for finding in found(tmp_path, source + sinks)] == ["share-group"]
    message = found(tmp_path, source.replace("share_group", "share_grp") + "sink: {type: console}\n")[0][3]
    assert "Did you mean 'share_group'?" in message


def test_a_file_must_be_a_mapping(tmp_path: Path) -> None:
    assert found(tmp_path, "- a\n- b\n")[0][2] == "wrong-type"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (finding,) = load_pipeline(tmp_path / "absent.yaml").findings
    assert "no such file" in finding.message
    (tmp_path / "p.txt").write_text("x")
    assert "YAML file or a Python module" in load_pipeline(tmp_path / "p.txt").findings[0].message


def test_files_must_not_share_a_name_or_a_checkpoint(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(GOOD)
    first, second = load_pipelines([tmp_path / "a.yaml", tmp_path / "b.yaml"])
    assert first.findings == []
    assert [finding.rule for finding in second.findings] == ["shared", "shared"]
    assert second.pipeline is None


MODULE = """\
def big(orders, least='10'):
    return orders

pipeline = {
    "source": {"name": "orders", "type": "topic", "topic": "a", "value": "string"},
    "steps": [
        {"name": "big", "python": big, "with": {"least": 5}},
    ],
    "sink": {"type": "console"},
    "checkpoint": "c",
}
"""


def test_a_python_module_is_a_pipeline_too(tmp_path: Path) -> None:
    pipeline = valid(tmp_path, MODULE, "module.py")
    assert pipeline.name == "module"
    assert pipeline.steps[0].reads == ("orders",)
    assert callable(pipeline.steps[0].python)
    assert pipeline.steps[0].arguments == {"least": "5"}


def test_findings_in_a_python_module_have_locations(tmp_path: Path) -> None:
    findings = found(tmp_path, MODULE.replace('"topic": "a"', '"topik": "a"'), "m1.py")
    assert (5, 51, "unknown-key") in [finding[:3] for finding in findings]
    findings = found(tmp_path, MODULE.replace('{"least": 5}', '{"lesst": 5}'), "m2.py")
    assert findings == [(7, 40, "python", "unknown parameter 'lesst' of the function. Did you mean 'least'?")]
    assert found(tmp_path, "x = 1\n", "m3.py")[0][2:] == (
        "python",
        "the module does not set the variable 'pipeline'. "
        "Write pipeline = {…} with the keys of a pipeline file.",
    )
    assert "ZeroDivisionError" in found(tmp_path, "pipeline = {}\n1 / 0\n", "m4.py")[0][3]
    assert found(tmp_path, "pipeline = {\n", "m5.py")[0][0] == 1


def test_a_function_needs_one_view_per_parameter(tmp_path: Path) -> None:
    (tmp_path / "fs.py").write_text("def join(left, right, spark): ...\n")
    text = changed(BLOCK, "    python: fs:join\n    inputs: [orders]\n")
    assert found(tmp_path, text)[0][:3] == (14, 5, "python")
    step = valid(tmp_path, text.replace("[orders]", "[orders, customers]")).steps[0]
    assert step.reads == ("orders", "customers")

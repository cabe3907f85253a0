"""Reads the examples of a pipeline file: given records and expected rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ruslo.pipeline.files.model import Example, Input, Output, Row
from ruslo.pipeline.keys.finding import Findings
from ruslo.pipeline.keys.key import Key, Reported, read_keys, read_list
from ruslo.pipeline.keys.located import Located, kind_of
from ruslo.pipeline.keys.value_types import Flag, Text

EXAMPLE_KEYS = (
    Key("name", Text(), "what the example shows", required=True),
    Key("ordered", Flag(), "compare the order of rows too", default=False),
)


def read_examples(
    root: Located, inputs: Sequence[Input], outputs: Sequence[Output], findings: Findings
) -> tuple[Example, ...]:
    items = read_list(root, "examples", findings)
    examples = (_example(item, inputs, outputs, findings) for item in items)
    return tuple(example for example in examples if example is not None)


def _example(
    node: Located, inputs: Sequence[Input], outputs: Sequence[Output], findings: Findings
) -> Example | None:
    try:
        values = read_keys(node, EXAMPLE_KEYS, findings, "example", besides=("given", "batches", "expect"))
    except Reported:
        return None
    assert isinstance(node.value, dict)
    name = values["name"]
    if ("given" in node.value) == ("batches" in node.value):
        findings.error(
            node.location,
            "missing-key",
            f"example {name!r} needs either 'given' or 'batches'",
            "Add records for the sources.",
        )
        return None
    if "expect" not in node.value:
        findings.error(
            node.location, "missing-key", f"example {name!r} needs 'expect'", "Add the expected rows."
        )
        return None
    is_stream = "batches" in node.value
    given = node.value["batches" if is_stream else "given"]
    if is_stream and not isinstance(given.value, list):
        findings.error(
            given.location, "wrong-type", "'batches' must be a list of records", "Start each batch with '-'."
        )
        return None
    nodes = given.value if is_stream and isinstance(given.value, list) else [given]
    try:
        only_input = inputs[0].name if len(inputs) == 1 else None
        views = list(dict.fromkeys(output.view for output in outputs))
        batches = [_rows_by_name(item, only_input, "source", findings) for item in nodes]
        expect = _rows_by_name(node.value["expect"], views[0] if len(views) == 1 else None, "view", findings)
    except Reported:
        return None
    return Example(name, batches, is_stream, expect, values["ordered"], node.key_location("name"))


def _rows_by_name(node: Located, only: str | None, what: str, findings: Findings) -> dict[str, list[Row]]:
    """``{name: [rows]}``, or the rows alone if only one name is possible."""
    if isinstance(node.value, dict):
        return {name: _rows(item, findings) for name, item in node.value.items()}
    if isinstance(node.value, list) and only is None:
        findings.error(
            node.location, "wrong-type", f"the pipeline has more than one {what}", f"Write '{what}: [rows]'."
        )
        raise Reported
    rows = _rows(node, findings)
    assert only is not None, "a list without a name was reported above"
    return {only: rows}


def _rows(node: Located, findings: Findings) -> list[Row]:
    if not isinstance(node.value, list):
        findings.error(
            node.location,
            "wrong-type",
            f"rows must be a list, not {kind_of(node.value)}",
            "Write '- {column: value}'.",
        )
        raise Reported
    rows: list[Row] = []
    for item in node.value:
        if not isinstance(item.value, dict):
            findings.error(
                item.location,
                "wrong-type",
                f"a row must be a mapping, not {kind_of(item.value)}",
                "Write '{column: value}'.",
            )
            raise Reported
        rows.append(cast(Row, item.plain()))
    return rows

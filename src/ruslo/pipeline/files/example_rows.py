"""Examples in a pipeline file: records that are given, rows that are expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ruslo.pipeline.files.finding import Findings
from ruslo.pipeline.files.located import Located, kind_of
from ruslo.pipeline.files.model import Example, Input, Output, Row
from ruslo.pipeline.files.shapes import Flag, Key, Reported, Text, read_keys

EXAMPLE_KEYS = (
    Key("name", Text(), "what it shows", required=True),
    Key("ordered", Flag(), "whether the order of rows matters", default=False),
)


def read_examples(
    root: Located, inputs: Sequence[Input], outputs: Sequence[Output], findings: Findings
) -> tuple[Example, ...]:
    assert isinstance(root.value, dict)
    node = root.value.get("examples")
    if node is None:
        return ()
    if not isinstance(node.value, list):
        findings.error(
            node.place,
            "wrong-type",
            f"examples must be a list, this is {kind_of(node.value)}",
            "Begin each with '- name:'.",
        )
        return ()
    examples = (_example(item, inputs, outputs, findings) for item in node.value)
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
            node.place,
            "missing-key",
            f"example {name!r} needs one of 'given' and 'batches'",
            "Give records for the sources.",
        )
        return None
    if "expect" not in node.value:
        findings.error(
            node.place, "missing-key", f"example {name!r} has no 'expect'", "Say which rows are to come."
        )
        return None
    is_stream = "batches" in node.value
    given = node.value["batches" if is_stream else "given"]
    if is_stream and not isinstance(given.value, list):
        findings.error(
            given.place, "wrong-type", "batches must be a list of what is given", "Begin each with '-'."
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
    return Example(name, batches, is_stream, expect, values["ordered"], node.key_place("name"))


def _rows_by_name(node: Located, only: str | None, what: str, findings: Findings) -> dict[str, list[Row]]:
    """``{name: [rows]}``; with one name to choose from, the rows alone will do."""
    if isinstance(node.value, list):
        if only is None:
            findings.error(
                node.place, "wrong-type", f"there is more than one {what}", f"Write '{what}: [rows]'."
            )
            raise Reported
        return {only: _rows(node, findings)}
    if isinstance(node.value, dict):
        return {name: _rows(item, findings) for name, item in node.value.items()}
    findings.error(
        node.place,
        "wrong-type",
        f"rows must be a list, this is {kind_of(node.value)}",
        "Write '- {column: value}'.",
    )
    raise Reported


def _rows(node: Located, findings: Findings) -> list[Row]:
    if not isinstance(node.value, list):
        findings.error(
            node.place,
            "wrong-type",
            f"rows must be a list, this is {kind_of(node.value)}",
            "Write '- {column: value}'.",
        )
        raise Reported
    rows: list[Row] = []
    for item in node.value:
        if not isinstance(item.value, dict):
            findings.error(
                item.place,
                "wrong-type",
                f"a row must be a mapping, this is {kind_of(item.value)}",
                "Write '{column: value}'.",
            )
            raise Reported
        rows.append(cast(Row, item.plain()))
    return rows

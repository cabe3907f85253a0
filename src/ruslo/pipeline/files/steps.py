"""Reads the steps of a pipeline: views derived by a query or a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruslo.pipeline.files.endpoints import WATERMARK, view_name
from ruslo.pipeline.files.model import Step
from ruslo.pipeline.files.python_ref import ReferenceProblem, function_shape, shape_of
from ruslo.pipeline.files.sql_text import problems_of, tables_of
from ruslo.pipeline.keys.finding import Findings, Location
from ruslo.pipeline.keys.key import Key, Reported, read_keys, read_list
from ruslo.pipeline.keys.located import Located, kind_of
from ruslo.pipeline.keys.value_types import ListOf, Options, Text
from ruslo.pipeline.suggestions import nearest

SPARK_PARAMETER = "spark"
"""A parameter of this name receives the Spark session."""

STEP_KEYS = (
    Key("name", Text(), "the view's name", required=True),
    Key("sql", Text(), "a query over sources and other steps"),
    Key("inputs", ListOf(Text()), "the views passed to a function; by default those named by its parameters"),
    Key("with", Options(), "more arguments of a function, as text", default={}),
    WATERMARK,
)


def read_steps(root: Located, folder: Path, findings: Findings) -> tuple[Step, ...]:
    steps = (_step(item, folder, findings) for item in read_list(root, "steps", findings))
    return tuple(step for step in steps if step is not None)


def _step(node: Located, folder: Path, findings: Findings) -> Step | None:
    try:
        values = read_keys(node, STEP_KEYS, findings, "step", besides=("python",))
    except Reported:
        return None
    assert isinstance(node.value, dict)
    name, location = values["name"], node.key_location("name")
    if not view_name(name, node.value["name"].location, findings):
        return None
    if (values["sql"] is None) == ("python" not in node.value):
        findings.error(
            node.location,
            "missing-key",
            f"step {name!r} needs either 'sql' or 'python'",
            "Add a query or a function.",
        )
        return None
    if values["sql"] is not None:
        reads = _sql_reads(node.value["sql"], values["sql"], findings)
        return Step(name, reads, values["sql"], None, {}, values["watermark"], location)
    return _python_step(node, values, folder, location, findings)


def _sql_reads(node: Located, sql: str, findings: Findings) -> tuple[str, ...]:
    for problem in problems_of(sql):
        findings.error(
            node.location_in_text(problem.line, problem.column), "sql", problem.message, problem.fix
        )
    return tuple(dict.fromkeys(read.name for read in tables_of(sql)))


def _python_step(
    node: Located, values: dict[str, Any], folder: Path, location: Location, findings: Findings
) -> Step | None:
    assert isinstance(node.value, dict)
    reference = node.value["python"]
    given = reference.value
    if not isinstance(given, str) and not callable(given):
        findings.error(
            reference.location,
            "wrong-type",
            f"'python' must be a function, not {kind_of(given)}",
            "Write module:function.",
        )
        return None
    try:
        shape = function_shape(given, folder) if isinstance(given, str) else shape_of(given)
    except ReferenceProblem as problem:
        findings.error(reference.location, "python", problem.message, problem.fix)
        return None
    extra = values["with"]
    unknown = [argument for argument in extra if argument not in shape.parameters]
    for argument in unknown:
        findings.error(
            node.key_location("with"),
            "python",
            f"unknown parameter {argument!r} of the function",
            nearest(argument, shape.parameters),
        )
    views = [name for name in shape.parameters if name != SPARK_PARAMETER and name not in extra]
    inputs = values["inputs"]
    if inputs is None:
        inputs = tuple(name for name in views if name in shape.required)
    elif not (len([name for name in views if name in shape.required]) <= len(inputs) <= len(views)):
        findings.error(
            node.key_location("inputs"),
            "python",
            f"the function takes {len(views)} views ({', '.join(views)}), but 'inputs' has {len(inputs)}",
            "Give one view per parameter.",
        )
        return None
    return Step(values["name"], tuple(inputs), None, given, extra, values["watermark"], location)

"""The steps of a pipeline: views made by a query or by a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruslo.pipeline.files.finding import Findings, Place, nearest
from ruslo.pipeline.files.located import Located, kind_of
from ruslo.pipeline.files.model import Step
from ruslo.pipeline.files.python_ref import ReferenceProblem, function_shape, shape_of
from ruslo.pipeline.files.shapes import Key, ListOf, Options, Reported, Text, read_keys
from ruslo.pipeline.files.sql_text import problems_of, tables_of
from ruslo.pipeline.files.view_parts import WATERMARK, view_name

SPARK_PARAMETER = "spark"
"""A function's parameter of this name gets the Spark session."""

STEP_KEYS = (
    Key("name", Text(), "the view's name", required=True),
    Key("sql", Text(), "a query over sources and other steps"),
    Key("inputs", ListOf(Text()), "the views that a function gets; by its parameters' names if not given"),
    Key("with", Options(), "further arguments of a function, as text", default={}),
    WATERMARK,
)


def read_steps(root: Located, folder: Path, findings: Findings) -> tuple[Step, ...]:
    assert isinstance(root.value, dict)
    node = root.value.get("steps")
    if node is None:
        return ()
    if not isinstance(node.value, list):
        findings.error(
            node.place,
            "wrong-type",
            f"steps must be a list, this is {kind_of(node.value)}",
            "Begin each with '- name:'.",
        )
        return ()
    steps = (_step(item, folder, findings) for item in node.value)
    return tuple(step for step in steps if step is not None)


def _step(node: Located, folder: Path, findings: Findings) -> Step | None:
    try:
        values = read_keys(node, STEP_KEYS, findings, "step", besides=("python",))
    except Reported:
        return None
    assert isinstance(node.value, dict)
    name, place = values["name"], node.key_place("name")
    if not view_name(name, node.value["name"].place, findings):
        return None
    if (values["sql"] is None) == ("python" not in node.value):
        findings.error(
            node.place,
            "missing-key",
            f"step {name!r} needs one of 'sql' and 'python'",
            "Write a query or name a function.",
        )
        return None
    if values["sql"] is not None:
        reads = _sql_reads(node.value["sql"], values["sql"], findings)
        return Step(name, reads, values["sql"], None, {}, values["watermark"], place)
    return _python_step(node, values, folder, place, findings)


def _sql_reads(node: Located, sql: str, findings: Findings) -> tuple[str, ...]:
    for problem in problems_of(sql):
        findings.error(node.place_in_text(problem.line, problem.column), "sql", problem.message, problem.fix)
    return tuple(dict.fromkeys(read.name for read in tables_of(sql)))


def _python_step(
    node: Located, values: dict[str, Any], folder: Path, place: Place, findings: Findings
) -> Step | None:
    assert isinstance(node.value, dict)
    reference = node.value["python"]
    given = reference.value
    if not isinstance(given, str) and not callable(given):
        findings.error(
            reference.place,
            "wrong-type",
            f"python names no function, this is {kind_of(given)}",
            "Write module:function.",
        )
        return None
    try:
        shape = function_shape(given, folder) if isinstance(given, str) else shape_of(given)
    except ReferenceProblem as problem:
        findings.error(reference.place, "python", problem.message, problem.fix)
        return None
    extra = values["with"]
    unknown = [argument for argument in extra if argument not in shape.parameters]
    for argument in unknown:
        findings.error(
            node.key_place("with"),
            "python",
            f"the function has no parameter {argument!r}",
            nearest(argument, shape.parameters),
        )
    views = [name for name in shape.parameters if name != SPARK_PARAMETER and name not in extra]
    inputs = values["inputs"]
    if inputs is None:
        inputs = tuple(name for name in views if name in shape.required)
    elif not (len([name for name in views if name in shape.required]) <= len(inputs) <= len(views)):
        findings.error(
            node.key_place("inputs"),
            "python",
            f"the function takes {len(views)} views ({', '.join(views)}), and {len(inputs)} are given",
            "Name as many.",
        )
        return None
    return Step(
        values["name"],
        tuple(inputs),
        None,
        given,
        extra,
        values["watermark"],
        place,
    )

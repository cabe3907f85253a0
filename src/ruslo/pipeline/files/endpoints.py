"""Reads the sources and sinks of a pipeline, as connectors of their types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ruslo.pipeline.connectors.base import Sink, Source
from ruslo.pipeline.connectors.registry import SINKS, SOURCES
from ruslo.pipeline.files.model import Input, Output, Watermark
from ruslo.pipeline.keys.finding import Findings, Location
from ruslo.pipeline.keys.key import Key, Reported, read_keys
from ruslo.pipeline.keys.located import Located
from ruslo.pipeline.keys.value_types import Choice, Duration, Section, Text
from ruslo.pipeline.suggestions import nearest

_VIEW_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
WATERMARK = Key(
    "watermark",
    Section(
        "watermark",
        (
            Key("column", Text(), "the column with the event time", required=True),
            Key("delay", Duration(), "how late events may arrive", required=True),
        ),
        lambda column, delay: Watermark(column, delay),
    ),
    "how late events may arrive before they are dropped",
)
C = TypeVar("C", Source, Sink)
SINK_KEYS = (
    Key("from", Text(), "the view to write; by default the last step"),
    Key(
        "mode",
        Choice(("append", "update", "complete")),
        "which rows of the result are written",
        default="append",
    ),
)


def view_name(name: str, location: Location, findings: Findings) -> bool:
    if _VIEW_NAME.match(name):
        return True
    findings.error(
        location, "view-name", f"invalid view name {name!r}", "Use letters, digits and underscores."
    )
    return False


def read_inputs(root: Located, findings: Findings) -> tuple[Input, ...]:
    inputs = []
    for name, node, location in _named(root, "source", "sources", findings):
        if isinstance(node.value, dict) and name == "source" and "name" in node.value:
            name = str(node.value["name"].value)
        if not view_name(name, location, findings):
            continue
        made = _connector(node, SOURCES, f"source {name!r}", (WATERMARK,), ("name",), findings)
        if made is not None:
            source, common = made
            for problem in source.problems():
                findings.error(node.key_location(problem.key), "source", problem.message, problem.fix)
            inputs.append(Input(name, source, common["watermark"], location))
    return tuple(inputs)


def read_outputs(root: Located, last_view: str | None, findings: Findings) -> tuple[Output, ...]:
    outputs = []
    for name, node, location in _named(root, "sink", "sinks", findings):
        made = _connector(node, SINKS, f"sink {name!r}", SINK_KEYS, (), findings)
        if made is None or not view_name(name, location, findings):
            continue
        sink, common = made
        for problem in sink.problems(common["mode"]):
            findings.error(node.key_location(problem.key), "sink", problem.message, problem.fix)
        view = common["from"] or last_view
        if view is None:
            findings.error(
                location, "missing-key", f"sink {name!r} has no view to write", "Add 'from: view'."
            )
            continue
        outputs.append(Output(name, view, sink, common["mode"], node.key_locations.get("from", location)))
    return tuple(outputs)


def _named(root: Located, one: str, many: str, findings: Findings) -> Iterator[tuple[str, Located, Location]]:
    """The entries of ``source`` or ``sources`` (``sink`` or ``sinks``) with their names."""
    assert isinstance(root.value, dict)
    if one in root.value and many in root.value:
        location = root.key_location(many)
        findings.error(
            location, "conflict", f"there are both {one!r} and {many!r}", f"Move all under {many!r}."
        )
    if one in root.value:
        yield one, root.value[one], root.key_location(one)
    elif many not in root.value:
        findings.error(
            root.location, "missing-key", f"the pipeline needs a {one!r}", f"Add '{one}:' with a type."
        )
    if many in root.value:
        node = root.value[many]
        if isinstance(node.value, dict) and node.value:
            for name, item in node.value.items():
                yield name, item, node.key_location(name)
        else:
            fix = f"Write '{many}:' and below it 'name: {{type: topic, …}}'."
            findings.error(node.location, "wrong-type", f"{many!r} must be a mapping of names", fix)


def _connector(
    node: Located,
    types: Mapping[str, type[C]],
    what: str,
    common_keys: Sequence[Key],
    besides: Sequence[str],
    findings: Findings,
) -> tuple[C, dict[str, Any]] | None:
    type_node = node.value.get("type") if isinstance(node.value, dict) else None
    if isinstance(node.value, dict) and type_node is None:
        fix = f"Add 'type:' and one of {', '.join(types)}."
        findings.error(node.location, "missing-key", f"{what} needs a 'type'", fix)
        return None
    kind = types.get(str(type_node.value)) if type_node is not None else None
    if type_node is not None and kind is None:
        findings.error(
            type_node.location,
            "unknown-type",
            f"unknown type {type_node.value!r} of {what}",
            nearest(str(type_node.value), types),
        )
        return None
    keys: tuple[Key, ...] = () if kind is None else kind.KEYS
    try:
        values = read_keys(node, (*keys, *common_keys), findings, what, besides=("type", *besides))
    except Reported:
        return None
    assert kind is not None
    common = {key.name: values.pop(key.name) for key in common_keys}
    return kind(**values), common

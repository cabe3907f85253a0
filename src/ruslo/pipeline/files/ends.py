"""The two ends of a pipeline: its sources and its sinks, made by the connectors that their types name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ruslo.pipeline.connectors.base import Sink, Source
from ruslo.pipeline.connectors.registry import SINKS, SOURCES
from ruslo.pipeline.files.finding import Findings, Place, nearest
from ruslo.pipeline.files.located import Located
from ruslo.pipeline.files.model import Input, Output
from ruslo.pipeline.files.shapes import Choice, Key, Reported, Text, read_keys
from ruslo.pipeline.files.view_parts import WATERMARK, view_name

C = TypeVar("C", Source, Sink)

SINK_KEYS = (
    Key("from", Text(), "the view to write; the last step if not given"),
    Key(
        "mode",
        Choice(("append", "update", "complete")),
        "which rows of a result are written",
        default="append",
    ),
)


def read_inputs(root: Located, findings: Findings) -> tuple[Input, ...]:
    inputs = []
    for name, node, place in _named(root, "source", "sources", findings):
        if isinstance(node.value, dict) and name == "source" and "name" in node.value:
            name = str(node.value["name"].value)
        if not view_name(name, place, findings):
            continue
        made = _connector(node, SOURCES, f"source {name!r}", (WATERMARK,), ("name",), findings)
        if made is not None:
            source, common = made
            for problem in source.problems():
                findings.error(node.key_place(problem.key), "source", problem.message, problem.fix)
            inputs.append(Input(name, source, common["watermark"], place))
    return tuple(inputs)


def read_outputs(root: Located, last_view: str | None, findings: Findings) -> tuple[Output, ...]:
    outputs = []
    for name, node, place in _named(root, "sink", "sinks", findings):
        made = _connector(node, SINKS, f"sink {name!r}", SINK_KEYS, (), findings)
        if made is None or not view_name(name, place, findings):
            continue
        sink, common = made
        for problem in sink.problems(common["mode"]):
            findings.error(node.key_place(problem.key), "sink", problem.message, problem.fix)
        view = common["from"] or last_view
        if view is None:
            findings.error(
                place, "missing-key", f"sink {name!r} does not say what it writes", "Add 'from: view'."
            )
            continue
        outputs.append(Output(name, view, sink, common["mode"], node.key_places.get("from", place)))
    return tuple(outputs)


def _named(root: Located, one: str, many: str, findings: Findings) -> Iterator[tuple[str, Located, Place]]:
    """What stands under ``source`` or ``sources`` (``sink`` or ``sinks``), with names."""
    assert isinstance(root.value, dict)
    if one in root.value and many in root.value:
        place = root.key_place(many)
        findings.error(place, "conflict", f"there are both {one!r} and {many!r}", f"Move all under {many!r}.")
    if one in root.value:
        yield one, root.value[one], root.key_place(one)
    elif many not in root.value:
        findings.error(
            root.place, "missing-key", f"the pipeline has no {one!r}", f"Add '{one}:' with a type."
        )
    if many in root.value:
        node = root.value[many]
        if isinstance(node.value, dict) and node.value:
            for name, item in node.value.items():
                yield name, item, node.key_place(name)
        else:
            fix = f"Write '{many}:' and below it 'name: {{type: topic, …}}'."
            findings.error(node.place, "wrong-type", f"{many} must be a mapping of names", fix)


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
        findings.error(node.place, "missing-key", f"{what} has no 'type'", fix)
        return None
    kind = types.get(str(type_node.value)) if type_node is not None else None
    if type_node is not None and kind is None:
        findings.error(
            type_node.place,
            "unknown-type",
            f"{what} has the type {type_node.value!r}, which there is not",
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

"""What the parts of a pipeline must have to do with each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ruslo.pipeline.files.finding import Findings, Place, nearest
from ruslo.pipeline.files.located import Located
from ruslo.pipeline.files.model import Pipeline, Step
from ruslo.pipeline.files.schema_text import SchemaProblem, parse_schema
from ruslo.pipeline.files.sql_text import tables_of

_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def check_pipeline(pipeline: Pipeline, root: Located, findings: Findings) -> None:
    if not _PIPELINE_NAME.match(pipeline.name):
        findings.error(
            root.key_place("name"),
            "name",
            f"{pipeline.name!r} cannot be a pipeline's name",
            "Use letters, digits, '.', '_' and '-'.",
        )
    declared = _declared(root)
    _check_views(pipeline, root, declared, findings)
    _check_cycles(pipeline.steps, findings)
    _check_topics(pipeline, root, findings)
    _check_examples(pipeline, declared, findings)
    if len(pipeline.views) == len(declared):  # else parts are missing for their own mistakes
        _check_use(pipeline, findings)
        _check_stream(pipeline, root, findings)


def in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Each step after those it reads; those that read each other in a circle come last, as they stand."""
    left = list(steps)
    ordered: list[Step] = []
    names = {step.name for step in steps}
    done: set[str] = set()
    while True:
        ready = next(
            (step for step in left if all(name in done or name not in names for name in step.reads)), None
        )
        if ready is None:
            return (*ordered, *left)
        left.remove(ready)
        ordered.append(ready)
        done.add(ready.name)


def _check_views(pipeline: Pipeline, root: Located, known: Sequence[str], findings: Findings) -> None:
    seen: dict[str, Place] = {}
    for part in pipeline.views:
        if part.name.lower() in seen:
            first = seen[part.name.lower()]
            findings.error(
                part.place,
                "duplicate-view",
                f"{part.name!r} is also the name of a view in line {first.line}",
                "Rename one of them.",
            )
        seen.setdefault(part.name.lower(), part.place)
    lowered = {name.lower() for name in known}
    for step in pipeline.steps:
        for name in step.reads:
            if name.lower() not in lowered:
                place = _read_place(step, name, root)
                findings.error(
                    place,
                    "undefined-view",
                    f"step {step.name!r} reads {name!r}, which is no source and no step",
                    nearest(name, known),
                )
    for output in pipeline.outputs:
        if output.view.lower() not in lowered:
            findings.error(
                output.place,
                "undefined-view",
                f"sink {output.name!r} writes {output.view!r}, which is no source and no step",
                nearest(output.view, known),
            )


def _declared(root: Located) -> list[str]:
    """The names of all views, also of those whose own mistakes kept them out of the pipeline."""
    assert isinstance(root.value, dict)
    names: list[str] = []
    one, many, steps = (root.value.get(key) for key in ("source", "sources", "steps"))
    if one is not None:
        named = one.value.get("name") if isinstance(one.value, dict) else None
        names.append("source" if named is None else str(named.value))
    if many is not None and isinstance(many.value, dict):
        names += many.value
    for step in steps.value if steps is not None and isinstance(steps.value, list) else ():
        if isinstance(step.value, dict) and "name" in step.value:
            names.append(str(step.value["name"].value))
    return names


def _read_place(step: Step, name: str, root: Located) -> Place:
    """Where in a step's query a view is named."""
    assert isinstance(root.value, dict)
    steps = root.value["steps"].value if "steps" in root.value else []
    for node in steps if isinstance(steps, list) else []:
        if not isinstance(node.value, dict) or node.key_place("name") != step.place:
            continue
        if step.sql is not None:
            for read in tables_of(step.sql):
                if read.name == name:
                    return node.value["sql"].place_in_text(read.line, read.column)
        return node.key_places.get("inputs", node.key_place("python"))
    return step.place


def _check_cycles(steps: Sequence[Step], findings: Findings) -> None:
    reads = {step.name.lower(): [name.lower() for name in step.reads] for step in steps}
    for step in steps:
        path = _way_back(step.name.lower(), reads)
        if path is not None:
            findings.error(
                step.place,
                "cycle",
                f"step {step.name!r} reads itself: {' → '.join(path)}",
                "Break the circle: a view is made from views that are there before it.",
            )


def _way_back(name: str, reads: dict[str, list[str]]) -> list[str] | None:
    """A way from a view along what it reads back to itself."""
    ways, seen = [[name]], set()
    while ways:
        way = ways.pop()
        for view in reads.get(way[-1], []):
            if view == name:
                return [*way, view]
            if view not in seen:
                seen.add(view)
                ways.append([*way, view])
    return None


def _check_use(pipeline: Pipeline, findings: Findings) -> None:
    used: set[str] = set()
    reads = {step.name.lower(): [name.lower() for name in step.reads] for step in pipeline.steps}
    waiting = [output.view.lower() for output in pipeline.outputs]
    while waiting:
        view = waiting.pop()
        if view not in used:
            used.add(view)
            waiting.extend(reads.get(view, []))
    if not pipeline.outputs:
        return
    for part in pipeline.views:
        if part.name.lower() not in used:
            findings.warning(
                part.place,
                "unused-view",
                f"{part.name!r} reaches no sink",
                "Remove it, or write it somewhere.",
            )


def _check_topics(pipeline: Pipeline, root: Located, findings: Findings) -> None:
    read = {
        (topic, entry.source.cluster or pipeline.bootstrap)
        for entry in pipeline.inputs
        for topic in entry.source.topics()
    }
    for output in pipeline.outputs:
        for topic in output.sink.topics():
            if (topic, output.sink.cluster or pipeline.bootstrap) in read:
                findings.error(
                    output.place,
                    "loop",
                    f"the topic {topic!r} is read and written: every record would come back",
                    "Write to another topic.",
                )
    for entry in pipeline.inputs:
        if entry.source.needs_dead_letters and pipeline.dead_letters is None:
            findings.error(
                entry.place,
                "missing-key",
                f"source {entry.name!r} has dead letters, and nothing says where they go",
                "Add 'dead_letters: topic' to the pipeline.",
            )
    if pipeline.dead_letters in {topic for topic, _ in read}:
        findings.error(
            root.key_place("dead_letters"),
            "loop",
            f"dead letters would go to {pipeline.dead_letters!r}, which is read",
            "Name another topic.",
        )


def _check_stream(pipeline: Pipeline, root: Located, findings: Findings) -> None:
    if not pipeline.inputs or not pipeline.outputs:
        return
    if pipeline.is_stream and pipeline.checkpoint is None:
        findings.error(
            root.place,
            "missing-checkpoint",
            "a stream must remember how far it is, and there is no 'checkpoint'",
            f"Add 'checkpoint: checkpoints/{pipeline.name}'.",
        )
    if not pipeline.is_stream:
        for key in ("history", "trigger"):
            if key in root.key_places:
                findings.warning(
                    root.key_place(key),
                    "no-stream",
                    f"{key!r} has no effect: no source is a stream",
                    "Remove it.",
                )
    if pipeline.trigger_ms is None and pipeline.history is not None:
        findings.warning(
            root.key_place("history"),
            "no-stream",
            "'history' has no effect with 'trigger: once'",
            "Remove one of them.",
        )


def _check_examples(pipeline: Pipeline, views: Sequence[str], findings: Findings) -> None:
    sources = {entry.name: entry for entry in pipeline.inputs}
    steps = {step.name for step in pipeline.steps}
    for example in pipeline.examples:
        for name in example.expect:
            if name not in views:
                message = f"{name!r} is expected, and is no view"
                findings.error(example.place, "example", message, nearest(name, views))
        for batch in example.batches:
            for name, rows in batch.items():
                if name in sources:
                    _check_rows(name, sources[name].source.columns(), rows, example.place, findings)
                elif name in steps or name not in views:
                    message = f"records are given for {name!r}, which is no source"
                    findings.error(example.place, "example", message, nearest(name, sources))


def _check_rows(
    name: str, schema: str | None, rows: Sequence[object], place: Place, findings: Findings
) -> None:
    if schema is None:
        findings.error(
            place,
            "example",
            f"examples need to know the columns of {name!r}",
            f"Add 'schema: …' to {name!r}.",
        )
        return
    try:
        columns = parse_schema(schema).fields
    except SchemaProblem:
        return  # reported with the source
    for row in rows:
        for column in row if isinstance(row, dict) else ():
            if column not in columns:
                findings.error(
                    place, "example", f"{name!r} has no column {column!r}", nearest(column, columns)
                )

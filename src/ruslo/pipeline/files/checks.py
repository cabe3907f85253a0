"""Checks the parts of a pipeline against each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ruslo.pipeline.files.model import Pipeline, Step
from ruslo.pipeline.files.sql_text import tables_of
from ruslo.pipeline.keys.finding import Findings, Location
from ruslo.pipeline.keys.located import Located
from ruslo.pipeline.keys.schema_text import SchemaProblem, parse_schema
from ruslo.pipeline.suggestions import nearest

_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def check_pipeline(pipeline: Pipeline, root: Located, findings: Findings) -> None:
    if not _PIPELINE_NAME.match(pipeline.name):
        findings.error(
            root.key_location("name"),
            "name",
            f"invalid pipeline name {pipeline.name!r}",
            "Use letters, digits, '.', '_' and '-'.",
        )
    declared = _declared(root)
    _check_views(pipeline, root, declared, findings)
    _check_cycles(pipeline.steps, findings)
    _check_topics(pipeline, root, findings)
    _check_examples(pipeline, declared, findings)
    if len(pipeline.views) == len(declared):  # otherwise views with errors are missing
        _check_use(pipeline, findings)
        _check_stream(pipeline, root, findings)
        _check_share_groups(pipeline, findings)


def in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Each step after the steps it reads; steps in a cycle come last, in file order."""
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
    seen: dict[str, Location] = {}
    for part in pipeline.views:
        if part.name.lower() in seen:
            first = seen[part.name.lower()]
            findings.error(
                part.location,
                "duplicate-view",
                f"duplicate view {part.name!r}, first defined in line {first.line}",
                "Rename one of them.",
            )
        seen.setdefault(part.name.lower(), part.location)
    lowered = {name.lower() for name in known}
    for step in pipeline.steps:
        for name in step.reads:
            if name.lower() not in lowered:
                location = _read_location(step, name, root)
                findings.error(
                    location,
                    "undefined-view",
                    f"step {step.name!r} reads the unknown view {name!r}",
                    nearest(name, known),
                )
    for output in pipeline.outputs:
        if output.view.lower() not in lowered:
            findings.error(
                output.location,
                "undefined-view",
                f"sink {output.name!r} writes the unknown view {output.view!r}",
                nearest(output.view, known),
            )


def _declared(root: Located) -> list[str]:
    """The names of all views, including those that have errors and are not in the pipeline."""
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


def _read_location(step: Step, name: str, root: Located) -> Location:
    """Where a step names a view that it reads."""
    assert isinstance(root.value, dict)
    steps = root.value["steps"].value if "steps" in root.value else []
    for node in steps if isinstance(steps, list) else []:
        if not isinstance(node.value, dict) or node.key_location("name") != step.location:
            continue
        if step.sql is not None:
            for read in tables_of(step.sql):
                if read.name == name:
                    return node.value["sql"].location_in_text(read.line, read.column)
        return node.key_locations.get("inputs", node.key_location("python"))
    return step.location


def _check_cycles(steps: Sequence[Step], findings: Findings) -> None:
    reads = {step.name.lower(): [name.lower() for name in step.reads] for step in steps}
    for step in steps:
        path = _cycle(step.name.lower(), reads)
        if path is not None:
            findings.error(
                step.location,
                "cycle",
                f"step {step.name!r} depends on itself: {' → '.join(path)}",
                "Break the cycle.",
            )


def _cycle(name: str, reads: dict[str, list[str]]) -> list[str] | None:
    """A path from a view through the views it reads back to itself."""
    paths, seen = [[name]], set()
    while paths:
        path = paths.pop()
        for view in reads.get(path[-1], []):
            if view == name:
                return [*path, view]
            if view not in seen:
                seen.add(view)
                paths.append([*path, view])
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
                part.location,
                "unused-view",
                f"the view {part.name!r} is not used by any sink",
                "Remove it, or write it to a sink.",
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
                    output.location,
                    "loop",
                    f"the topic {topic!r} is both read and written: every record would be read again",
                    "Write to another topic.",
                )
    for entry in pipeline.inputs:
        if entry.source.needs_dead_letters and pipeline.dead_letters is None:
            findings.error(
                entry.location,
                "missing-key",
                f"source {entry.name!r} needs a dead-letter topic",
                "Add 'dead_letters: topic' to the pipeline.",
            )
    if pipeline.dead_letters in {topic for topic, _ in read}:
        findings.error(
            root.key_location("dead_letters"),
            "loop",
            f"the dead-letter topic {pipeline.dead_letters!r} is also read",
            "Use another topic.",
        )


def _check_stream(pipeline: Pipeline, root: Located, findings: Findings) -> None:
    if not pipeline.inputs or not pipeline.outputs:
        return
    if pipeline.is_stream and pipeline.checkpoint is None:
        findings.error(
            root.location,
            "missing-checkpoint",
            "a stream needs a 'checkpoint'",
            f"Add 'checkpoint: checkpoints/{pipeline.name}'.",
        )
    if not pipeline.is_stream:
        for key in ("history", "trigger"):
            if key in root.key_locations:
                findings.warning(
                    root.key_location(key),
                    "no-stream",
                    f"{key!r} has no effect without a stream",
                    "Remove it.",
                )
    if pipeline.trigger_ms is None and pipeline.history is not None:
        findings.warning(
            root.key_location("history"),
            "no-stream",
            "'history' has no effect with 'trigger: once'",
            "Remove one of them.",
        )


def _check_share_groups(pipeline: Pipeline, findings: Findings) -> None:
    for entry in pipeline.inputs:
        if entry.source.share_group is not None and len(pipeline.outputs) > 1:
            findings.error(
                entry.location,
                "share-group",
                f"source {entry.name!r} is a member of a share group, and each sink has a query of its own: "
                "every record would reach only one of the sinks",
                "Keep one sink, or remove 'share_group'.",
            )


def _check_examples(pipeline: Pipeline, views: Sequence[str], findings: Findings) -> None:
    sources = {entry.name: entry for entry in pipeline.inputs}
    steps = {step.name for step in pipeline.steps}
    for example in pipeline.examples:
        for name in example.expect:
            if name not in views:
                message = f"'expect' names the unknown view {name!r}"
                findings.error(example.location, "example", message, nearest(name, views))
        for batch in example.batches:
            for name, rows in batch.items():
                if name in sources:
                    _check_rows(name, sources[name].source.columns(), rows, example.location, findings)
                elif name in steps or name not in views:
                    message = f"'given' names the unknown source {name!r}"
                    findings.error(example.location, "example", message, nearest(name, sources))


def _check_rows(
    name: str, schema: str | None, rows: Sequence[object], location: Location, findings: Findings
) -> None:
    if schema is None:
        findings.error(
            location,
            "example",
            f"examples need the columns of source {name!r}",
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
                    location,
                    "example",
                    f"unknown column {column!r} of source {name!r}",
                    nearest(column, columns),
                )

"""Loads pipeline files, with all findings about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ruslo.pipeline.files.checks import check_pipeline, in_order
from ruslo.pipeline.files.endpoints import read_inputs, read_outputs
from ruslo.pipeline.files.example_rows import read_examples
from ruslo.pipeline.files.model import Pipeline
from ruslo.pipeline.files.pipeline_keys import PIPELINE_KEYS, STRUCTURE_KEYS
from ruslo.pipeline.files.python_reader import read_python
from ruslo.pipeline.files.steps import read_steps
from ruslo.pipeline.files.yaml_reader import read_yaml
from ruslo.pipeline.keys.finding import Finding, Findings, Location, PipelineInvalid, Severity
from ruslo.pipeline.keys.key import Reported, read_keys
from ruslo.pipeline.keys.located import Located

_YAML = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Loaded:
    """``pipeline`` is None if the file has errors."""

    path: Path
    pipeline: Pipeline | None
    findings: Sequence[Finding]

    def valid(self) -> Pipeline:
        if self.pipeline is None:
            raise PipelineInvalid(self.findings)
        return self.pipeline


def load_pipelines(paths: Sequence[Path]) -> list[Loaded]:
    """Load each file, then check that names and checkpoints are not shared."""
    loaded = [load_pipeline(path) for path in paths]
    seen: dict[str, Path] = {}
    results = []
    for entry in loaded:
        shared = Findings()
        if entry.pipeline is not None:
            begin = Location(entry.path, 1, 1)
            keys = {f"the name {entry.pipeline.name!r}": "name"}
            if entry.pipeline.checkpoint is not None:
                folder = entry.pipeline.folder.resolve() / entry.pipeline.checkpoint
                keys[f"the checkpoint {folder}"] = "checkpoint"
            for what, key in keys.items():
                if what in seen:
                    shared.error(
                        begin, "shared", f"{what} is also used by {seen[what]}", f"Set another {key}."
                    )
                seen.setdefault(what, entry.path)
        found = [*entry.findings, *shared.sorted()]
        results.append(Loaded(entry.path, None if shared.has_errors else entry.pipeline, found))
    return results


def load_pipeline(path: Path) -> Loaded:
    findings = Findings()
    pipeline = _load(path, findings)
    return Loaded(path, None if findings.has_errors else pipeline, findings.sorted())


def _load(path: Path, findings: Findings) -> Pipeline | None:
    root = _read(path, findings)
    if root is None:
        return None
    try:
        values = read_keys(root, PIPELINE_KEYS, findings, "the pipeline", besides=tuple(STRUCTURE_KEYS))
    except Reported as reported:
        if not isinstance(root.value, dict):
            return None
        values = reported.values  # continue, to report all errors at once
    folder = path.parent
    inputs = read_inputs(root, findings)
    steps = read_steps(root, folder, findings)
    last_view = steps[-1].name if steps else inputs[-1].name if inputs else None
    outputs = read_outputs(root, last_view, findings)
    examples = read_examples(root, inputs, outputs, findings)
    trigger = values["trigger"]
    pipeline = Pipeline(
        name=values["name"] or path.stem,
        path=path,
        description=values["description"],
        inputs=inputs,
        steps=in_order(steps),
        outputs=outputs,
        bootstrap=values["bootstrap"],
        group=values["group"],
        trigger_ms=None if trigger == "once" else trigger,
        checkpoint=values["checkpoint"],
        dead_letters=values["dead_letters"],
        resources=values["resources"],
        on_error=values["on_error"],
        history=values["history"],
        examples=examples,
    )
    check_pipeline(pipeline, root, findings)
    return pipeline


def _read(path: Path, findings: Findings) -> Located | None:
    begin = Location(path, 1, 1)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        findings.error(begin, "file", f"cannot read the file: {reason}", "Check the path.")
        return None
    except UnicodeDecodeError as error:
        findings.error(
            begin, "file", f"the file is not UTF-8: {error.reason} at byte {error.start}", "Save it as UTF-8."
        )
        return None
    if path.suffix in _YAML:
        return read_yaml(text, path, findings)
    if path.suffix == ".py":
        return read_python(text, path, findings)
    findings.error(
        begin, "file", "a pipeline must be a YAML file or a Python module", "Name it .yaml or .py."
    )
    return None


def errors_in(loaded: Sequence[Loaded]) -> list[Finding]:
    return [finding for entry in loaded for finding in entry.findings if finding.severity is Severity.ERROR]

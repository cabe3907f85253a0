"""Reads a pipeline that is a Python module: its variable ``pipeline`` is a dict with the keys of a YAML file.

Functions may be given directly instead of as ``module:function``. Locations are those of the dict literal in
the source; computed values have the location of the variable.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import cast

from ruslo.pipeline.files.python_ref import load_file
from ruslo.pipeline.keys.finding import Findings, Location
from ruslo.pipeline.keys.located import Located, Scalar

VARIABLE = "pipeline"


def read_python(text: str, path: Path, findings: Findings) -> Located | None:
    begin = Location(path, 1, 1)
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as error:
        location = Location(path, error.lineno or 1, error.offset or 1)
        findings.error(location, "python", f"invalid Python: {error.msg}", "Correct the module.")
        return None
    written = _assigned(tree)
    if written is None:
        fix = f"Write {VARIABLE} = {{…}} with the keys of a pipeline file."
        findings.error(begin, "python", f"the module does not set the variable {VARIABLE!r}", fix)
        return None
    try:
        value = getattr(load_file(path), VARIABLE)
    except Exception as error:  # any exception of the user's module is a finding
        findings.error(
            begin, "python", f"the module raised {type(error).__name__}: {error}", "Correct the module."
        )
        return None
    return _locate(value, written, Location(path, written.lineno, written.col_offset + 1), findings)


def _assigned(tree: ast.Module) -> ast.expr | None:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == VARIABLE for target in targets):
                return node.value
    return None


def _locate(value: object, written: ast.expr | None, above: Location, findings: Findings) -> Located:
    location = above if written is None else Location(above.file, written.lineno, written.col_offset + 1)
    if isinstance(value, dict):
        displayed = _displayed(written)
        values: dict[str, Located] = {}
        key_locations: dict[str, Location] = {}
        for key, item in value.items():
            key_node, item_node = displayed.get(key, (None, None))
            values[str(key)] = _locate(item, item_node, location, findings)
            if key_node is not None:
                key_locations[str(key)] = Location(location.file, key_node.lineno, key_node.col_offset + 1)
        return Located(values, location, key_locations)
    if isinstance(value, list | tuple):
        nodes: list[ast.expr | None] = [None] * len(value)
        if isinstance(written, ast.List | ast.Tuple) and len(written.elts) == len(value):
            nodes = list(written.elts)
        return Located(
            [_locate(item, node, location, findings) for item, node in zip(value, nodes, strict=True)],
            location,
        )
    if value is None or isinstance(value, str | int | float | bool) or callable(value):
        return Located(cast(Scalar, value), location)
    return Located(str(value), location)


def _displayed(written: ast.expr | None) -> dict[object, tuple[ast.expr, ast.expr]]:
    if not isinstance(written, ast.Dict):
        return {}
    return {
        key.value: (key, item)
        for key, item in zip(written.keys, written.values, strict=True)
        if isinstance(key, ast.Constant)
    }

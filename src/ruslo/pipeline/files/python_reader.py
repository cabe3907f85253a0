"""A pipeline that is a Python module: its variable ``pipeline`` is a dict with the keys of the YAML file.

Functions may stand in it themselves instead of ``module:function``. Places are those of the dict display in
the source; what the module computes has the place of the variable.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import cast

from ruslo.pipeline.files.finding import Findings, Place
from ruslo.pipeline.files.located import Located, Scalar
from ruslo.pipeline.files.python_ref import load_file

VARIABLE = "pipeline"


def read_python(text: str, path: Path, findings: Findings) -> Located | None:
    begin = Place(path, 1, 1)
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as error:
        place = Place(path, error.lineno or 1, error.offset or 1)
        findings.error(place, "python", f"this is no Python: {error.msg}", "Correct the module.")
        return None
    written = _assigned(tree)
    if written is None:
        fix = f"Write {VARIABLE} = {{…}} with the keys of a pipeline file."
        findings.error(begin, "python", f"the module sets no variable {VARIABLE!r}", fix)
        return None
    try:
        value = getattr(load_file(path), VARIABLE)
    except Exception as error:  # the module is the user's: whatever it raises is a finding about it
        findings.error(
            begin, "python", f"the module fails: {type(error).__name__}: {error}", "Correct the module."
        )
        return None
    return _locate(value, written, Place(path, written.lineno, written.col_offset + 1), findings)


def _assigned(tree: ast.Module) -> ast.expr | None:
    for node in tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == VARIABLE for target in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            return node.value
    return None


def _locate(value: object, written: ast.expr | None, above: Place, findings: Findings) -> Located:
    place = above if written is None else Place(above.file, written.lineno, written.col_offset + 1)
    if isinstance(value, dict):
        displayed = _displayed(written)
        values: dict[str, Located] = {}
        key_places: dict[str, Place] = {}
        for key, item in value.items():
            key_node, item_node = displayed.get(key, (None, None))
            values[str(key)] = _locate(item, item_node, place, findings)
            if key_node is not None:
                key_places[str(key)] = Place(place.file, key_node.lineno, key_node.col_offset + 1)
        return Located(values, place, key_places)
    if isinstance(value, list | tuple):
        nodes: list[ast.expr | None] = [None] * len(value)
        if isinstance(written, ast.List | ast.Tuple) and len(written.elts) == len(value):
            nodes = list(written.elts)
        return Located(
            [_locate(item, node, place, findings) for item, node in zip(value, nodes, strict=True)], place
        )
    if value is None or isinstance(value, str | int | float | bool) or callable(value):
        return Located(cast(Scalar, value), place)
    return Located(str(value), place)


def _displayed(written: ast.expr | None) -> dict[object, tuple[ast.expr, ast.expr]]:
    if not isinstance(written, ast.Dict):
        return {}
    return {
        key.value: (key, item)
        for key, item in zip(written.keys, written.values, strict=True)
        if isinstance(key, ast.Constant)
    }

"""ARCHITECTURE.md, CONTRIBUTING.md and the READMEs of folders name files and functions that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

SOURCE = ROOT / "src/ruslo"
TESTS = ROOT / "tests"
BESIDE = tuple(ROOT / name for name in ("conformance", "examples", "requirements", "scripts"))
PAGES = (
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *(page for folder in (SOURCE, TESTS, *BESIDE) for page in sorted(folder.rglob("README.md"))),
)
WITHOUT_README = (
    SOURCE / "console/static",  # the console serves every file in it; console/templates describes it
    *(path for path in (TESTS / "unit").iterdir() if path.is_dir()),  # they mirror src/ruslo
)
SPAN = re.compile(r"`([A-Za-z_0-9/.-]+)`")
HOP = re.compile(r"`([a-z_0-9/]+\.py): ([A-Za-z_0-9.]+)`")
"""A step of a walk: a file below src/ruslo, and the function or method in it."""


def files_named_in(page: Path) -> list[str]:
    """Spans that can only be paths."""
    return [span for span in SPAN.findall(page.read_text()) if "/" in span.strip("/") or span.endswith(".py")]


@cache
def names_in(path: Path) -> set[str]:
    """Classes, functions and methods of a module, methods as ``Class.method``."""
    names: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{node.name}.")

    visit(ast.parse(path.read_text()).body, "")
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_named_in(page: Path) -> None:
    # READMEs name files relative to their own folder, ARCHITECTURE.md relative to src/ruslo or to the broker.
    folders = (page.parent, page.parent.parent, ROOT, SOURCE, SOURCE / "broker")
    for name in files_named_in(page):
        candidates = [folder / path for folder in folders for path in (name, f"{name}.py")]
        assert any(path.exists() for path in candidates), f"{page.relative_to(ROOT)} names {name}"


def test_the_walks_name_functions_that_exist() -> None:
    hops = HOP.findall((ROOT / "ARCHITECTURE.md").read_text())
    assert len(hops) > 40, "the walks of ARCHITECTURE.md are lists of hops, `file.py: function`"
    missing = [
        f"{file}: {name}"
        for file, name in hops
        if not (SOURCE / file).exists() or name not in names_in(SOURCE / file)
    ]
    assert missing == []


def test_every_folder_has_a_readme() -> None:
    folders = {file.parent for root in (SOURCE, TESTS) for file in root.rglob("*") if file.is_file()}
    missing = [
        str(folder.relative_to(ROOT))
        for folder in sorted(folders)
        if not (folder / "README.md").exists()
        and folder.name != "__pycache__"
        and not any(folder.is_relative_to(each) for each in WITHOUT_README)
    ]
    assert missing == []

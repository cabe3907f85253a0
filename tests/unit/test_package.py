"""The public names and the dependencies of the package."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import ruslo

ROOT = Path(__file__).resolve().parents[2]
INDIRECT = {"pytest", "typing_extensions", "py4j", "markupsafe"}
"""Packages that need no dependency of ours: pytest loads the plugin; others come with pyspark or jinja2."""


def test_every_public_name_exists() -> None:
    for name in ruslo.__all__:
        assert getattr(ruslo, name) is not None
    assert set(ruslo.__all__) <= set(dir(ruslo))
    assert set(ruslo._HOME_OF) == set(ruslo.__all__)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Produser'"):
        ruslo.Produser  # noqa: B018


def test_importing_the_package_imports_no_heavy_module() -> None:
    script = "import ruslo, sys; print(sorted(m for m in sys.modules if m.split('.')[0] in {HEAVY}))"
    heavy = {"confluent_kafka", "asyncio", "uvloop", "click", "logging", "concurrent"}
    done = subprocess.run(
        [sys.executable, "-c", script.replace("HEAVY", repr(heavy)[1:-1])], capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_every_imported_package_is_a_dependency() -> None:
    """Developers have more packages than users, so only users would notice a missing dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expected = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    declared = {_normal(re.split(r"[^\w.-]", requirement)[0]) for requirement in expected}
    homes = packages_distributions()
    undeclared = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in (ROOT / "src").rglob("*.py")
        for module in _imported(path) - {"ruslo"} - sys.stdlib_module_names - INDIRECT
        if not declared & {_normal(home) for home in homes.get(module, [module])}
    }
    assert undeclared == set()


def _imported(path: Path) -> set[str]:
    """The packages that a file imports at any level."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.split(".")[0] for name in names}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

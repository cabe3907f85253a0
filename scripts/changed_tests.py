"""Print the unit tests of what changed since main: ``python scripts/changed_tests.py [BASE]``.

A test file is listed when it changed itself, when it mirrors a changed module, or when it imports one.
Without a BASE the changes are those of this branch and of the working tree; on main itself, those that are
not pushed.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNIT_TESTS = ROOT / "tests/unit"


def main() -> None:
    base = sys.argv[1] if len(sys.argv) > 1 else _fork_point()
    changed = _changed_files(base)
    modules = {_module_of(path) for path in changed if path.suffix == ".py"}
    tests = [path for path in sorted(UNIT_TESTS.rglob("test_*.py")) if path.relative_to(ROOT) in changed]
    tests += [path for path in sorted(UNIT_TESTS.rglob("test_*.py")) if _imports(path) & modules]
    for path in dict.fromkeys(tests):
        print(path.relative_to(ROOT))


def _fork_point() -> str:
    for branch in ("origin/main", "main"):
        found = _git("merge-base", "HEAD", branch, check=False)
        if found and found != _git("rev-parse", "HEAD"):
            return found
    return "HEAD"


def _changed_files(base: str) -> set[Path]:
    names = _git("diff", "--name-only", base).splitlines()
    names += _git("ls-files", "--others", "--exclude-standard").splitlines()
    return {Path(name) for name in names}


def _module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "src" else parts).removesuffix(".__init__")


def _imports(path: Path) -> set[str]:
    """The modules that a test imports, and the module whose place in the tree it mirrors."""
    mirrored = path.relative_to(UNIT_TESTS).with_name(path.name.removeprefix("test_"))
    found = {_module_of(Path("src/ruslo") / mirrored)}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _git(*arguments: str, check: bool = True) -> str:
    run = subprocess.run(["git", *arguments], cwd=ROOT, check=check, capture_output=True, text=True)
    return run.stdout.strip()


if __name__ == "__main__":
    main()

"""Time and randomness come through the ports, so that a simulation can repeat a run from its seed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ruslo

SOURCES = Path(ruslo.__file__).parent
ROOMS = ("broker", "machines", "net", "storage")

ALLOWED = {
    "broker/metrics/loop_watch.py": {"time.thread_time_ns"},  # CPU time, which no clock of ours measures.
    "broker/node/log_lines.py": {"time.gmtime"},  # A format, not the time.
    "storage/cleaner/cpu_priority.py": {"time.monotonic_ns"},  # The cleaner is a process of its own.
    "storage/cleaner/job.py": {"time.monotonic"},
    "storage/cleaner/throttle.py": {"time.monotonic", "time.sleep"},
}
"""Uses of the system's time and randomness outside the ports."""

MODULES = {"random", "secrets", "time", "uuid"}
TYPES = {"random.Random", "uuid.UUID"}
"""``Random`` is the port of randomness: it is seeded by the node, or from what it is used for."""


def _uses(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (f"os.{name.name}" for name in node.names if name.name == "urandom")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in MODULES or (node.value.id, node.attr) == ("os", "urandom"):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Call) and ast.unparse(node) == "Random()":
            yield "random.Random()"


def _imports(source: str, module: str) -> bool:
    return any(
        isinstance(node, ast.Import) and any(name.name == module for name in node.names)
        for node in ast.walk(ast.parse(source))
    )


def test_no_room_uses_the_systems_time_or_randomness() -> None:
    found: dict[str, set[str]] = {}
    for room in ROOMS:
        for path in sorted((SOURCES / room).rglob("*.py")):
            source = path.read_text()
            uses = {
                use
                for use in _uses(source)
                if use not in TYPES
                # ``self.random.choice`` is a port; ``random.choice`` is one if ``random`` is a parameter.
                and (not use.startswith("random.") or use == "random.Random()" or _imports(source, "random"))
            }
            if uses:
                found[str(path.relative_to(SOURCES))] = uses
    # The node creates the one generator that all its parts share.
    assert found.pop("broker/node/node.py") == {"random.Random()"}
    assert found == ALLOWED

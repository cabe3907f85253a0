"""Time and randomness come through the ports, so that a simulation can repeat a run from its seed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ruslo

SOURCES = Path(ruslo.__file__).parent
PACKAGES = ("broker", "machines", "net", "storage")

ALLOWED = {
    "broker/metrics/loop_watch.py": {
        "time.thread_time_ns"
    },  # CPU time, which the clock port does not measure.
    "broker/node/log_lines.py": {"time.gmtime"},  # A format, not the current time.
    "net/sasl/oauth_tokens.py": {"secrets.token_urlsafe"},  # Ids and nonces that no attacker may predict.
    "net/sasl/scram.py": {"secrets.token_bytes", "secrets.token_urlsafe"},
    "storage/cleaner/cpu_priority.py": {"time.monotonic_ns"},  # The cleaner is a separate process.
    "storage/cleaner/job.py": {"time.monotonic"},
    "storage/cleaner/throttle.py": {"time.monotonic", "time.sleep"},
}
"""Functions of the system's time and randomness that only the ports may use."""

MODULES = {"random", "secrets", "time", "uuid"}
TYPES = {"random.Random", "uuid.UUID"}
"""``Random`` is the port of randomness: the node or its user seeds it."""


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


def test_no_package_uses_the_systems_time_or_randomness() -> None:
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in sorted((SOURCES / package).rglob("*.py")):
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
    # The node creates the only generator, which all its components share.
    assert found.pop("broker/node/node.py") == {"random.Random()"}
    assert found == ALLOWED

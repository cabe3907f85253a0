"""Which installed packages a pipeline's executors need: Ruslo's, and what those need in turn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from ruslo.model.errors import ConfigError

OWN = "ruslo"
_ALWAYS = ("pyarrow", "numba", "pandas")
"""What Spark's Python workers and the decoder use; they come with the extra ``spark``."""
_FROM_THE_CLUSTER = frozenset({"pyspark", "py4j"})
"""Spark puts its own on every executor's path, and they must be the cluster's version."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def needed_distributions(packages: Iterable[str] = ()) -> dict[str, Distribution]:
    """By name; raises ConfigError for a package asked for that is not installed."""
    asked = [_normal(name) for name in packages]
    found: dict[str, Distribution] = {}
    waiting = [OWN, *_ALWAYS, *asked]
    while waiting:
        name = waiting.pop()
        if name in found or name in _FROM_THE_CLUSTER:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name in asked:
                raise ConfigError(
                    f"the package {name!r} is not installed here: install it, then pack"
                ) from None
            continue  # needed on other systems, or for an extra that nobody asked for
        waiting.extend(_requirements(found[name]))
    return dict(sorted(found.items()))


def _requirements(found: Distribution) -> Iterator[str]:
    for requirement in found.requires or ():
        match = _NAME.match(requirement)
        optional = "extra ==" in requirement
        if match is not None and not optional:
            yield _normal(match[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def files_of(found: Distribution) -> Iterator[tuple[Path, str]]:
    """Each file and its place among site-packages; scripts and compiled caches are left out."""
    if _normal(found.name) == OWN:
        yield from _own_files()
        return
    for file in found.files or ():
        place = file.as_posix()
        if place.startswith("..") or "__pycache__" in place:
            continue
        path = Path(str(found.locate_file(file)))
        if path.is_file():
            yield path, place


def _own_files() -> Iterator[tuple[Path, str]]:
    """From where it was imported, which also serves an editable installation."""
    package = Path(__file__).resolve().parents[2]
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, f"{OWN}/{path.relative_to(package).as_posix()}"

"""The installed packages that executors need: Ruslo, and its dependencies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from ruslo.model.errors import ConfigError

OWN = "ruslo"
_ALWAYS = ("pyarrow", "numba", "pandas", "fastavro", "protobuf")
"""Packages that Spark's Python workers and the decoder use, from the extra ``spark``."""
_FROM_THE_CLUSTER = frozenset({"pyspark", "py4j"})
"""Spark provides these to executors, in the version of the cluster."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def needed_distributions(packages: Iterable[str] = ()) -> dict[str, Distribution]:
    """Distributions by name; raises ConfigError if one of ``packages`` is not installed."""
    requested = [_normal(name) for name in packages]
    found: dict[str, Distribution] = {}
    waiting = [OWN, *_ALWAYS, *requested]
    while waiting:
        name = waiting.pop()
        if name in found or name in _FROM_THE_CLUSTER:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name in requested:
                raise ConfigError(
                    f"the package {name!r} is not installed: install it, then pack again"
                ) from None
            continue  # required on other systems, or by an extra
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
    """Each file and its path relative to site-packages, without scripts and bytecode caches."""
    if _normal(found.name) == OWN:
        yield from _own_files()
        return
    for file in found.files or ():
        name = file.as_posix()
        if name.startswith("..") or "__pycache__" in name:
            continue
        path = Path(str(found.locate_file(file)))
        if path.is_file():
            yield path, name


def _own_files() -> Iterator[tuple[Path, str]]:
    """The files of the imported package, which also works for an editable installation."""
    package = Path(__file__).resolve().parents[2]
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, f"{OWN}/{path.relative_to(package).as_posix()}"

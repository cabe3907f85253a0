"""The files in `sets`: classes of tests, by the jar or the feature that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SETS_FOLDER = Path(__file__).resolve().parent / "sets"
SMOKE = "smoke"
"""A short part, for `make test`. Other sets contain its tests, too."""
SETS = {
    "clients": "clients of Kafka",
    "core": "requests and groups",
    "server": "configuration and quorum",
    "tools": "command-line tools",
    "storage": "storage",
    "share": "share groups",
    "streams": "streams groups",
}


def selectors_of(name: str) -> list[str]:
    """The selectors (`CLASS` or `CLASS#METHOD`) of a set, or the selector itself."""
    if name not in SETS and name != SMOKE:
        return [name]
    lines = (SETS_FOLDER / f"{name}.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def class_of(selector: str) -> str:
    return selector.partition("#")[0]


def by_class(selectors: Sequence[str]) -> dict[str, list[str]]:
    """Selectors grouped by class; a class runs once, even if a set names some of its methods."""
    grouped: dict[str, list[str]] = {}
    for selector in selectors:
        grouped.setdefault(class_of(selector), []).append(selector)
    return grouped

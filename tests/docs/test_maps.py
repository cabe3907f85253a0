"""The map of the house and the signs on its rooms name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

SOURCE = ROOT / "src/ruslo"
PAGES = (ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted(SOURCE.rglob("README.md")))
SPAN = re.compile(r"`([A-Za-z_0-9/.-]+)`")


def files_named_in(page: Path) -> list[str]:
    """What can be nothing but a path."""
    return [span for span in SPAN.findall(page.read_text()) if "/" in span.strip("/") or span.endswith(".py")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_named_in(page: Path) -> None:
    # Walks through the house go by the names within a room, and most of them lead through the broker.
    rooms = (page.parent, page.parent.parent, ROOT, SOURCE, SOURCE / "broker")
    for name in files_named_in(page):
        there = [room / path for room in rooms for path in (name, f"{name}.py")]
        assert any(path.exists() for path in there), f"{page.relative_to(ROOT)} names {name}"


def test_every_room_has_a_sign() -> None:
    rooms = [path for path in SOURCE.iterdir() if (path / "__init__.py").exists()]
    assert rooms
    for room in rooms:
        assert (room / "README.md").exists(), room.name

"""Links between the pages have a target."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, all_pages

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors that web sites make of headings: lower case, dashes for spaces, no punctuation."""
    headings = HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("name", all_pages())
def test_the_links_of(name: str) -> None:
    page = ROOT / name
    for link in LINK.findall(page.read_text()):
        if re.match(r"[a-z]+://", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{name} links to {link}"


def test_every_page_of_the_documentation_is_linked_from_another() -> None:
    linked = {
        (ROOT / name).parent.joinpath(link.partition("#")[0]).resolve()
        for name in all_pages()
        for link in LINK.findall((ROOT / name).read_text())
    }
    for page in (ROOT / "docs").glob("*.md"):
        assert page in linked or page.name.startswith("benchmarks"), page.name


@pytest.mark.parametrize("picture", sorted((ROOT / "docs/images").glob("*.svg")), ids=lambda path: path.stem)
def test_pictures_have_a_dark_mode_and_a_description(picture: Path) -> None:
    text = picture.read_text()
    assert "prefers-color-scheme: dark" in text
    root = ElementTree.fromstring(text)
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text
    assert root.get("viewBox")

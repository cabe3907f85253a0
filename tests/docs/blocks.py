"""The code blocks of a page, and the marks in its source.

A mark is an HTML comment. In the lines before a block it applies to that block:

=============================  ==============================================================================
``<!-- before: COMMAND -->``    run first, in the same folder
``<!-- checked only: WHY -->``  commands are parsed, to check that they and their options exist, not run
``<!-- may fail: WHY -->``      run with any exit code
``<!-- not run: WHY -->``       not even parsed
=============================  ==============================================================================

Anywhere in the page: ``<!-- replace: THIS = THAT -->`` for every block of it, ``<!-- brokers: 3 -->`` for a
cluster instead of a single broker, ``<!-- all blocks checked only: WHY -->`` for every block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]

_MARK = re.compile(r"<!-- (before|checked only|may fail|not run): (.+?) -->")
_FENCE = re.compile(r"^```(\w*)$")
_REPLACE = re.compile(r"<!-- replace: (.+?) = (.*?) -->")
_BROKERS = re.compile(r"<!-- brokers: (\d+) -->")
_ALL_CHECKED = re.compile(r"<!-- all blocks checked only: (.+?) -->")


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str
    before: list[str] = field(default_factory=list)
    checked_only: str | None = None
    may_fail: str | None = None
    not_run: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.language})"


@dataclass
class Page:
    name: str
    blocks: list[Block]
    replacements: list[tuple[str, str]]
    brokers: int


def all_pages() -> list[str]:
    """Every page: those of the root, of docs, and the READMEs of the source."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")]
    found += [*ROOT.glob("src/**/README.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("bench/*.md")]
    return sorted(str(page.relative_to(ROOT)) for page in found)


def read_page(name: str) -> Page:
    return parse_page(name, (ROOT / name).read_text())


def parse_page(name: str, text: str) -> Page:
    brokers = _BROKERS.search(text)
    all_checked = _ALL_CHECKED.search(text)
    page = Page(name, [], _REPLACE.findall(text), int(brokers[1]) if brokers else 1)
    marks: list[tuple[str, str]] = []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        fence = _FENCE.match(line.strip())
        if fence is None:
            found = _MARK.findall(line)
            if found:
                marks += found
            elif line.strip():
                marks = []
            continue
        body = []
        for _, inner in lines:
            if inner.strip() == "```":
                break
            body.append(inner)
        block = Block(name, number, fence[1], "\n".join(body) + "\n")
        block.checked_only = all_checked[1] if all_checked and fence[1] == "console" else None
        for kind, value in marks:
            if kind == "before":
                block.before.append(value)
            else:
                setattr(block, kind.replace(" ", "_"), value)
        marks = []
        page.blocks.append(block)
    return page


def commands_in(text: str) -> list[str]:
    """The commands of a console block, with continued lines joined; the rest is output."""
    commands: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command = command[:-1] + next(lines).strip()
            commands.append(command)
    return commands

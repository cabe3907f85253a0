"""A mistake in a pipeline file: where it is, what is wrong, and how to put it right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ruslo.model.errors import ConfigError


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file; lines and columns count from 1, as editors do."""

    file: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Finding:
    place: Place
    rule: str
    message: str
    fix: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        fix = f" {self.fix}" if self.fix else ""
        return f"{self.place}: {self.severity}: {self.message}.{fix} [{self.rule}]"

    def as_json(self) -> dict[str, object]:
        return {
            "file": str(self.place.file),
            "line": self.place.line,
            "column": self.place.column,
            "severity": str(self.severity),
            "rule": self.rule,
            "message": self.message,
            "fix": self.fix,
        }


class Findings:
    """Collects what is found, so that one look at a file tells of all its mistakes."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def error(self, place: Place, rule: str, message: str, fix: str = "") -> None:
        self._found.append(Finding(place, rule, message, fix))

    def warning(self, place: Place, rule: str, message: str, fix: str = "") -> None:
        self._found.append(Finding(place, rule, message, fix, Severity.WARNING))

    @property
    def has_errors(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self._found)

    def sorted(self) -> list[Finding]:
        return sorted(
            self._found, key=lambda found: (str(found.place.file), found.place.line, found.place.column)
        )


class PipelineInvalid(ConfigError):
    """A pipeline file has mistakes that keep it from running."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = [finding for finding in findings if finding.severity is Severity.ERROR]
        super().__init__("\n".join(str(finding) for finding in self.findings))


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint at what was probably meant, or the words there are to choose from."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(sorted(names))}." if names else ""

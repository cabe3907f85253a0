"""A finding in a pipeline file: its location, what is wrong, and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ruslo.model.errors import ConfigError


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Location:
    """A position in a file; lines and columns start at 1, as in editors."""

    file: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Finding:
    location: Location
    rule: str
    message: str
    fix: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        fix = f" {self.fix}" if self.fix else ""
        return f"{self.location}: {self.severity}: {self.message}.{fix} [{self.rule}]"

    def as_json(self) -> dict[str, object]:
        return {
            "file": str(self.location.file),
            "line": self.location.line,
            "column": self.location.column,
            "severity": str(self.severity),
            "rule": self.rule,
            "message": self.message,
            "fix": self.fix,
        }


class Findings:
    """Collects the findings, so that all errors of a file are reported at once."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def error(self, location: Location, rule: str, message: str, fix: str = "") -> None:
        self._found.append(Finding(location, rule, message, fix))

    def warning(self, location: Location, rule: str, message: str, fix: str = "") -> None:
        self._found.append(Finding(location, rule, message, fix, Severity.WARNING))

    @property
    def has_errors(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self._found)

    def sorted(self) -> list[Finding]:
        return sorted(
            self._found,
            key=lambda found: (str(found.location.file), found.location.line, found.location.column),
        )


class PipelineInvalid(ConfigError):
    """A pipeline file has errors."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = [finding for finding in findings if finding.severity is Severity.ERROR]
        super().__init__("\n".join(str(finding) for finding in self.findings))

"""A table that compares Ruslo's figures with Apache Kafka's and with the targets."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.measure import GB
from bench.setting import Figures

Results = dict[str, dict[str, Figures]]  # contender -> scenario -> figures


@dataclass(frozen=True)
class Row:
    """One line of the table: the figure, its format, and its target: a ratio to Apache Kafka's figure, or a
    value."""

    title: str
    scenario: str
    figure: str
    unit: str
    better: Literal["more", "less"]
    wanted_ratio: float | None = None
    decimals: int = 2
    scale: float = 1.0
    wanted_value: float | None = None

    def ratio(self, results: Results) -> float | None:
        ours, theirs = self.value(results, "ruslo"), self.value(results, "kafka")
        return ours / theirs if ours is not None and theirs else None

    def value(self, results: Results, contender: str) -> float | None:
        value = results.get(contender, {}).get(self.scenario, {}).get(self.figure)
        return None if value is None else value * self.scale

    def is_reached(self, results: Results) -> bool | None:
        """Return whether the target is met; None without a target, or if a figure was not measured."""
        if self.wanted_value is not None:
            found, wanted = self.value(results, "ruslo"), self.wanted_value
        elif self.wanted_ratio is not None:
            found, wanted = self.ratio(results), self.wanted_ratio
        else:
            return None
        if found is None:
            return None
        return found >= wanted if self.better == "more" else found <= wanted

    def wanted(self) -> str:
        sign = "≥" if self.better == "more" else "≤"
        if self.wanted_value is not None:
            return f"{sign} {self.wanted_value:g} {self.unit}".rstrip()
        return "–" if self.wanted_ratio is None else f"{sign} {self.wanted_ratio:g}×"


COLUMNS = {"ruslo": "Ruslo", "kafka": "Apache Kafka", "ceiling": "nothing stored"}


def table_cells(results: Results, rows: Sequence[Row]) -> list[list[str]]:
    """Return headings, and the rows for which Ruslo or Apache Kafka was measured, as text."""
    shown = [name for name in COLUMNS if name != "ceiling" or name in results]
    lines = [["work", *(COLUMNS[name] for name in shown), "", "ratio", "wanted", ""]]
    for row in rows:
        if row.value(results, "ruslo") is None and row.value(results, "kafka") is None:
            continue
        ratio = row.ratio(results)
        reached = row.is_reached(results)
        lines.append(
            [
                row.title,
                *(_number(row.value(results, name), row.decimals) for name in shown),
                row.unit,
                "–" if ratio is None else f"{ratio:.2f}×",
                row.wanted(),
                "" if reached is None else "yes" if reached else "no",
            ]
        )
    return lines


def plain_table(results: Results, rows: Sequence[Row]) -> str:
    lines = table_cells(results, rows)
    columns = len(lines[0])
    unit_column = columns - 4
    widths = [max(len(line[column]) for line in lines) for column in range(columns)]
    aligned = []
    for line in lines:
        cells = [
            cell.ljust(width) if column in (0, unit_column, columns - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        aligned.append("  ".join(cells).rstrip())
    return "\n".join(aligned)


def markdown_table(results: Results, rows: Sequence[Row]) -> str:
    headings, *lines = table_cells(results, rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in [headings, ["---"] * len(headings), *lines])


def machine() -> str:
    """Describe the processors and the memory."""
    model = "unknown processor"
    processors = 0
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            processors += 1
    total_kb = int(Path("/proc/meminfo").read_text().split()[1])
    memory_gb = total_kb * 1024 / GB
    return f"{processors} × {model}, {memory_gb:.0f} GB, Python {platform.python_version()}"


def _number(value: float | None, decimals: int) -> str:
    return "–" if value is None else f"{value:,.{decimals}f}"

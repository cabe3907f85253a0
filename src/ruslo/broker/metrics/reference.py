"""Generates the table of metrics in docs/metrics.md from the catalog.

``python -m ruslo.broker.metrics.reference`` writes it; ``--check`` exits with 1 if it is out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from ruslo.broker.metrics.catalog import CATALOG

DEFAULT_PAGE = Path("docs/metrics.md")
BEGIN = "<!-- the table is generated: make generate -->"
END = "<!-- end of the table -->"


def table() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "| metric | kind | labels | description |"
    yield "|---|---|---|---|"
    for metric in CATALOG:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help.removesuffix('.')} |"


def with_table(page: str) -> str:
    """Replace the text between the two marks of the page."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page lacks the marks around the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="Change nothing; exit with 1 if the table is out of date."
    )
    parser.add_argument("--page", type=Path, default=DEFAULT_PAGE)
    options = parser.parse_args(arguments)
    written = options.page.read_text()
    wanted = with_table(written)
    if options.check and written != wanted:
        print(f"{options.page} is out of date; run make generate", file=sys.stderr)
        return 1
    if not options.check:
        options.page.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

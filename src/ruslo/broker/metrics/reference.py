"""The table of metrics in docs/metrics.md, made from the catalogue.

``python -m ruslo.broker.metrics.reference`` writes it; ``--check`` says by its exit code whether it is
current.
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
    yield "| metric | kind | labels | what it tells |"
    yield "|---|---|---|---|"
    for metric in CATALOG:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help.removesuffix('.')} |"


def with_table(page: str) -> str:
    """The page with what stands between the marks written anew."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page has no place for the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if it is not current")
    parser.add_argument("--page", type=Path, default=DEFAULT_PAGE)
    options = parser.parse_args(arguments)
    written = options.page.read_text()
    wanted = with_table(written)
    if options.check and written != wanted:
        print(f"{options.page} is not what the catalogue says; run make generate", file=sys.stderr)
        return 1
    if not options.check:
        options.page.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

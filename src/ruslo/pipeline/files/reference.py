"""Generates the reference of all keys at the end of ``docs/pipelines.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ruslo.pipeline.connectors.registry import SINKS, SOURCES
from ruslo.pipeline.files.endpoints import SINK_KEYS, WATERMARK
from ruslo.pipeline.files.example_rows import EXAMPLE_KEYS
from ruslo.pipeline.files.pipeline_keys import PIPELINE_KEYS, STRUCTURE_KEYS
from ruslo.pipeline.files.steps import STEP_KEYS
from ruslo.pipeline.keys.key import Key
from ruslo.pipeline.keys.value_types import Section

MARK = "<!-- Generated from here by `python -m ruslo.pipeline.files.reference`. -->\n"
_PAGE = Path(__file__).resolve().parents[4] / "docs" / "pipelines.md"
_EXAMPLE_ROWS = {
    "given": "rows by source, run as a batch; with one source the rows alone",
    "batches": "a list of `given` entries, run as a stream",
    "expect": "rows by view; with one sink the rows alone",
}
_STEP_PYTHON = "`module:function`, instead of `sql`"


def reference() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "### The pipeline\n"
    yield from _table(PIPELINE_KEYS, STRUCTURE_KEYS)
    for key in PIPELINE_KEYS:
        if isinstance(key.type, Section):
            yield f"\n`{key.name}`:\n"
            yield from _table(key.type.keys)
    yield "\n### Steps\n"
    yield from _table(STEP_KEYS, {"python": _STEP_PYTHON})
    yield "\n### Sources\n"
    yield "All sources have `type`, and:\n"
    yield from _table((WATERMARK,))
    assert isinstance(WATERMARK.type, Section)
    yield "\n`watermark`:\n"
    yield from _table(WATERMARK.type.keys)
    for name, source in SOURCES.items():
        yield f"\n**`type: {name}`** {source.DOC}\n"
        yield from _table(source.KEYS)
    yield "\n### Sinks\n"
    yield "All sinks have `type`, and:\n"
    yield from _table(SINK_KEYS)
    for name, sink in SINKS.items():
        yield f"\n**`type: {name}`** {sink.DOC}\n"
        yield from _table(sink.KEYS)
    yield "\n### Examples\n"
    yield from _table(EXAMPLE_KEYS, _EXAMPLE_ROWS)
    yield ""


def _table(keys: Sequence[Key], more: dict[str, str] | None = None) -> Iterator[str]:
    yield "| key | value | meaning |"
    yield "|---|---|---|"
    for key in keys:
        yield f"| `{key.name}` | {key.type.description}{_default(key)} | {key.doc} |"
    for name, doc in (more or {}).items():
        yield f"| `{name}` | | {doc} |"


def _default(key: Key) -> str:
    if key.required:
        return "; required"
    if isinstance(key.default, bool):
        return f"; default `{str(key.default).lower()}`"
    return f"; default `{key.default}`" if isinstance(key.default, str) and key.default else ""


def page() -> str:
    """The hand-written part of the page, and the reference."""
    return _PAGE.read_text(encoding="utf-8").partition(MARK)[0] + MARK + "\n" + reference()


def main() -> int:
    if "--check" in sys.argv[1:]:
        if _PAGE.read_text(encoding="utf-8") == page():
            return 0
        print("docs/pipelines.md is stale: run python -m ruslo.pipeline.files.reference", file=sys.stderr)
        return 1
    _PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

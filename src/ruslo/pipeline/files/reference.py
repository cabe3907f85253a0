"""The reference of all keys at the end of ``docs/pipelines.md``, made from their declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ruslo.pipeline.connectors.registry import SINKS, SOURCES
from ruslo.pipeline.files.ends import SINK_KEYS
from ruslo.pipeline.files.example_rows import EXAMPLE_KEYS
from ruslo.pipeline.files.sections import PIPELINE_KEYS, STRUCTURE_KEYS
from ruslo.pipeline.files.shapes import Key, Section
from ruslo.pipeline.files.steps import STEP_KEYS
from ruslo.pipeline.files.view_parts import WATERMARK

MARK = "<!-- From here on made by `python -m ruslo.pipeline.files.reference`. -->\n"
_PAGE = Path(__file__).resolve().parents[4] / "docs" / "pipelines.md"
_EXAMPLE_ROWS = {
    "given": "rows by source, run as a batch; for a single source the rows alone",
    "batches": "a list of such, run as a stream",
    "expect": "rows by view; for a single sink the rows alone",
}
_STEP_PYTHON = "`module:function`, instead of `sql`"


def reference() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "### The pipeline\n"
    yield from _table(PIPELINE_KEYS, STRUCTURE_KEYS)
    for key in PIPELINE_KEYS:
        if isinstance(key.kind, Section):
            yield f"\n`{key.name}`:\n"
            yield from _table(key.kind.keys)
    yield "\n### Steps\n"
    yield from _table(STEP_KEYS, {"python": _STEP_PYTHON})
    yield "\n### Sources\n"
    yield "All have `type`, and:\n"
    yield from _table((WATERMARK,))
    assert isinstance(WATERMARK.kind, Section)
    yield "\n`watermark`:\n"
    yield from _table(WATERMARK.kind.keys)
    for name, source in SOURCES.items():
        yield f"\n**`type: {name}`** {source.DOC}\n"
        yield from _table(source.KEYS)
    yield "\n### Sinks\n"
    yield "All have `type`, and:\n"
    yield from _table(SINK_KEYS)
    for name, sink in SINKS.items():
        yield f"\n**`type: {name}`** {sink.DOC}\n"
        yield from _table(sink.KEYS)
    yield "\n### Examples\n"
    yield from _table(EXAMPLE_KEYS, _EXAMPLE_ROWS)
    yield ""


def _table(keys: Sequence[Key], more: dict[str, str] | None = None) -> Iterator[str]:
    yield "| key | is | |"
    yield "|---|---|---|"
    for key in keys:
        yield f"| `{key.name}` | {key.kind.words}{_default(key)} | {key.doc} |"
    for name, doc in (more or {}).items():
        yield f"| `{name}` | | {doc} |"


def _default(key: Key) -> str:
    if key.required:
        return "; required"
    if isinstance(key.default, bool):
        return f"; `{str(key.default).lower()}`"
    return f"; `{key.default}`" if isinstance(key.default, str) and key.default else ""


def page() -> str:
    """The page as it should be: what people wrote, and the reference."""
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

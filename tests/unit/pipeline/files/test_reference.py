from __future__ import annotations

from pathlib import Path

from ruslo.pipeline.connectors.registry import SINKS, SOURCES
from ruslo.pipeline.files.reference import page, reference

PAGE = Path(__file__).resolve().parents[4] / "docs" / "pipelines.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python -m ruslo.pipeline.files.reference"


def test_every_connector_and_key_is_documented() -> None:
    text = reference()
    for connectors in (SOURCES, SINKS):
        for name, connector in connectors.items():
            assert f"**`type: {name}`**" in text
            assert all(f"| `{key.name}` |" in text for key in connector.KEYS)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.cli.terminal.yaml_text import to_yaml

yaml = pytest.importorskip("yaml")

texts = st.text(st.characters(codec="utf-8"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


def test_readable_yaml() -> None:
    value = {
        "topic": "orders",
        "partitions": [{"id": 0, "isr": [1, 2]}, {"id": 1, "isr": []}],
        "config": {"retention.ms": "604800000", "cleanup.policy": "no"},
        "note": None,
    }
    assert to_yaml(value) == (
        "topic: orders\n"
        "partitions:\n"
        "  - id: 0\n"
        "    isr:\n"
        "      - 1\n"
        "      - 2\n"
        "  - id: 1\n"
        "    isr: []\n"
        "config:\n"
        '  retention.ms: "604800000"\n'
        '  cleanup.policy: "no"\n'
        "note: null\n"
    )


@given(values)
def test_a_yaml_library_reads_the_same_value(value: object) -> None:
    assert yaml.safe_load(to_yaml(value)) == value

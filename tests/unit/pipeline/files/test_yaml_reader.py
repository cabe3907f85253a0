from __future__ import annotations

from pathlib import Path

from ruslo.pipeline.files.yaml_reader import read_yaml
from ruslo.pipeline.keys.finding import Findings, Location
from ruslo.pipeline.keys.located import Located

PATH = Path("p.yaml")


def read(text: str, **environment: str) -> tuple[Located, Findings]:
    findings = Findings()
    node = read_yaml(text, PATH, findings, environment)
    assert node is not None
    return node, findings


def test_values_have_locations() -> None:
    node, findings = read("name: x\nsource:\n  type: topic\n  topics: [a, b]\n")
    assert node.plain() == {"name": "x", "source": {"type": "topic", "topics": ["a", "b"]}}
    assert isinstance(node.value, dict)
    source = node.value["source"]
    assert source.key_location("topics") == Location(PATH, 4, 3)
    assert isinstance(source.value, dict)
    assert source.value["type"].location == Location(PATH, 3, 9)
    assert findings.sorted() == []


def test_lines_of_a_block_have_locations() -> None:
    node, _ = read("steps:\n  - sql: |\n\n      SELECT\n        1\n  - sql: 'SELECT 2'\n")
    assert isinstance(node.value, dict)
    steps = node.value["steps"].value
    assert isinstance(steps, list)
    block, quoted = (step.value["sql"] for step in steps if isinstance(step.value, dict))
    assert block.value == "\nSELECT\n  1\n"
    assert block.location_in_text(3, 3) == Location(PATH, 5, 9)
    assert quoted.location_in_text(1, 8) == Location(PATH, 6, 18)


def test_environment_variables_are_expanded() -> None:
    node, findings = read("a: ${HOST}:${PORT:-9092}\nb: costs $$5\nc: '^x$'\nd: ${GONE}\n", HOST="h")
    assert node.plain() == {"a": "h:9092", "b": "costs $5", "c": "^x$", "d": ""}
    (finding,) = findings.sorted()
    assert (finding.rule, finding.location.line, str(finding.severity)) == ("unset-variable", 4, "warning")


def test_dates_stay_text_and_numbers_are_numbers() -> None:
    node, _ = read("day: 2026-01-01\nat: 2026-01-01T10:00:00Z\nn: 5\nx: 1.5\nyes: true\nnothing:\n")
    assert node.plain() == {
        "day": "2026-01-01",
        "at": "2026-01-01T10:00:00Z",
        "n": 5,
        "x": 1.5,
        "yes": True,
        "nothing": None,
    }


def test_invalid_yaml_is_reported_with_its_line() -> None:
    for text, line in (("a: [1,\nb: 2\n", 3), ("a: 'open\n", 2), ("\ta: 1\n", 1), ("a: 1\n b: 2\n", 2)):
        findings = Findings()
        assert read_yaml(text, PATH, findings, {}) is None
        (finding,) = findings.sorted()
        assert (finding.rule, finding.location.line) == ("yaml", line), finding


def test_an_empty_file_is_reported() -> None:
    findings = Findings()
    assert read_yaml("# nothing\n", PATH, findings, {}) is None
    assert findings.sorted()[0].rule == "empty"


def test_duplicate_keys_are_reported() -> None:
    _, findings = read("name: a\ntrigger: 1s\nname: b\n")
    (finding,) = findings.sorted()
    assert (finding.rule, finding.location.line, finding.message) == (
        "duplicate-key",
        3,
        "duplicate key 'name', first in line 1",
    )


def test_an_anchor_that_contains_itself_is_reported() -> None:
    _, findings = read("a: &x\n  b: *x\n")
    assert findings.sorted()[0].rule == "yaml"

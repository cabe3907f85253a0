from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.config.keys.broker import BROKER
from ruslo.config.keys.client_metrics import CLIENT_METRICS
from ruslo.config.keys.group import GROUP
from ruslo.config.log_config import TOPIC
from ruslo.config.reference import main, reference_page


def test_the_page_lists_every_property_once_per_resource() -> None:
    page = reference_page()
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    tables = (BROKER, TOPIC, GROUP, CLIENT_METRICS)
    assert len(rows) == sum(map(len, tables)) + 3
    assert set(rows) >= {f"| `{key.name}`" for table in tables for key in table}


def test_a_row_of_the_page() -> None:
    row = next(line for line in reference_page().splitlines() if line.startswith("| `segment.bytes`"))
    assert row == (
        "| `segment.bytes` | Size at which a segment is rolled. | int | `1073741824` "
        "| `[1048576,...]` | **yes** | `log.segment.bytes` |"
    )


def test_rows_have_seven_cells() -> None:
    for line in reference_page().splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 8, line


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "docs" / "configuration.md"
    assert main(["--check", "--page", str(page)]) == 1
    assert main(["--page", str(page)]) == 0
    assert main(["--check", "--page", str(page)]) == 0
    page.write_text(page.read_text() + "edited by hand\n")
    assert main(["--check", "--page", str(page)]) == 1
    assert "run python -m ruslo.config.reference" in capsys.readouterr().err

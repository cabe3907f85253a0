from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.broker.dispatch.api_table import broker_apis, controller_apis
from ruslo.broker.node.api_reference import main, page
from tests.docs.blocks import ROOT


class Hot:
    def handle(self, *arguments: object) -> None: ...


def test_page_is_current() -> None:
    assert (ROOT / "docs/protocol.md").read_text() == page(), "run make generate"


def test_page_lists_exactly_the_supported_apis() -> None:
    _, brokers, controllers = page().split("\n## ")
    for text, served in ((brokers, broker_apis(Hot(), Hot())), (controllers, controller_apis())):
        rows = [
            [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "| " in line
        ]
        supported = {int(row[0]) for row in rows[1:] if row[3].startswith("yes")}
        assert supported == set(served)
        assert f"{len(served)} of {len(rows) - 1} are answered" in text


def test_outdated_page_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.md"
    path.write_text("old")
    assert main(["--check", "--page", str(path)]) == 1
    assert "make generate" in capsys.readouterr().err
    assert main(["--page", str(path)]) == 0
    assert main(["--check", "--page", str(path)]) == 0

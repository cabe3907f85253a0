from __future__ import annotations

from pathlib import Path

from ruslo.client.settings.reference import main, reference_page

PAGE = Path(__file__).resolve().parents[4] / "docs" / "python-settings.md"


def test_the_page_is_current() -> None:
    assert main(["--check", "--page", str(PAGE)]) == 0


def test_page_describes_how_each_setting_is_handled() -> None:
    librdkafka, share = reference_page().split("## Share consumers")
    rows = handled_by(librdkafka)
    assert rows["linger.ms"] == "librdkafka"
    assert rows["fetch.max.wait.ms"] == "translated: `fetch.wait.max.ms`"
    assert rows["buffer.memory"] == "Ruslo"
    assert rows["metrics.num.samples"] == "no effect"
    assert handled_by(share)["interceptor.classes"] == "refused"
    assert handled_by(share)["share.acquire.mode"] == "Ruslo"


def handled_by(section: str) -> dict[str, str]:
    return {
        line.split("|")[1].strip(" `"): line.split("|")[-2].strip()
        for line in section.splitlines()
        if "|" in line
    }

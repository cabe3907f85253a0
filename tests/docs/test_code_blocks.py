"""Every code block of the documentation works as shown: it is run, or a mark says why not."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ruslo.config.properties import format_properties
from ruslo.testing.cluster_layout import single_node_properties
from tests.docs.blocks import Block, Page, all_pages, commands_in, parse_page, read_page
from tests.docs.brokers import brokers_for
from tests.docs.console import CommandFailed, Console, check
from tests.docs.programs import check_file, run_go, run_java, run_python
from tests.support.network.ports import free_port

PAGES = [name for name in all_pages() if read_page(name).blocks]


class Runner:
    def __init__(self, page: Page, folder: Path, bootstrap: str, metrics: str) -> None:
        self._folder = folder
        self._replacements = [
            *page.replacements,
            ("127.0.0.1:9092", bootstrap),
            ("localhost:9092", bootstrap),
            ("127.0.0.1:9404", metrics),
        ]
        self._console = Console(folder, {"RUSLO_BOOTSTRAP": bootstrap})
        self._python: dict[str, Any] = {"__name__": "__main__"}
        # The property file that pages about nodes refer to.
        properties = single_node_properties(folder / "served-data", port=free_port())
        (folder / "server.properties").write_text(format_properties(properties))

    def run(self, block: Block) -> None:
        for command in block.before:
            self._console.run(self._real(command))
        text = self._real(block.text)
        match block.language:
            case "console":
                for command in commands_in(text):
                    if block.checked_only:
                        check(command)
                    else:
                        self._console.run(command, may_fail=block.may_fail is not None)
            case "python":
                if block.checked_only:
                    compile(text, str(block), "exec")
                else:
                    run_python(block, text, self._python, self._folder)
            case "java":
                run_java(text, self._folder)
            case "go":
                run_go(text, self._folder)
            case language:
                check_file(language, text)

    def close(self) -> None:
        """Drop the objects of Python blocks while the broker still runs."""
        self._python.clear()

    def _real(self, text: str) -> str:
        for shown, real in self._replacements:
            text = text.replace(shown, real)
        return text


@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of(name: str, tmp_path: Path) -> None:
    page = read_page(name)
    with brokers_for(page) as (bootstrap, metrics):
        runner = Runner(page, tmp_path, bootstrap, metrics)
        for block in page.blocks:
            if block.not_run:
                continue
            if block.language in ("java", "go") and shutil.which(block.language) is None:
                continue
            try:
                runner.run(block)
            except Exception as error:
                raise AssertionError(f"{block} does not work: {error}") from error
        runner.close()


def test_most_blocks_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for name in PAGES for block in read_page(name).blocks]
    counts = Counter(
        "not run" if block.not_run else "checked only" if block.checked_only else "run" for block in blocks
    )
    with capsys.disabled():
        print(f"\n{len(blocks)} code blocks in {len(PAGES)} pages: {dict(counts)}")
    assert counts["run"] >= 0.6 * len(blocks)
    assert counts["not run"] <= 0.15 * len(blocks)
    for block in blocks:
        assert block.language, f"{block} has no language"
        reason = block.not_run or block.checked_only or block.may_fail
        assert reason is None or len(reason) > 10, f"{block} does not say why"


def test_marks_belong_to_the_next_block_only() -> None:
    page = parse_page(
        "p.md",
        "<!-- brokers: 3 -->\n<!-- replace: /data = data -->\n"
        "<!-- before: ruslo topic create a -->\n<!-- may fail: it is about failures -->\n\n"
        "```console\n$ ruslo topic list \\\n    -o json\nout\n$ true\n```\n\n```text\nx\n```\n"
        "<!-- not run: lost, as text follows -->\nText.\n```python\npass\n```\n",
    )
    assert (page.brokers, page.replacements) == (3, [("/data", "data")])
    console, text, python = page.blocks
    assert console.before == ["ruslo topic create a"]
    assert console.may_fail == "it is about failures"
    assert commands_in(console.text) == ["ruslo topic list -o json", "true"]
    assert (text.language, text.before, text.may_fail, python.not_run) == ("text", [], None, None)


def test_commands_that_do_not_exist_are_found_without_running_them() -> None:
    check("ruslo topic create orders -p 3 | cat > x")
    check("make bench ARGS=--quick")
    for wrong in (
        "ruslo topic creat orders",
        "ruslo topic create orders --partitoins 3",
        "true && ruslo nothing",
        "make coffee",
    ):
        with pytest.raises((CommandFailed, Exception), match=r"No such|no target|nothing"):
            check(wrong)

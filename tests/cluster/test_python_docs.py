"""The code of docs/python.md and of the README runs as it stands, but for the broker's address."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ruslo.testing import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_the_page_runs_from_top_to_bottom(page: str, ruslo_broker: EmbeddedBroker, tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert blocks
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks).replace("127.0.0.1:9092", ruslo_broker.bootstrap))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr

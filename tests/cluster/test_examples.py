"""The examples of the documentation do what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_stretched_cluster_loses_a_rack_and_nothing_else() -> None:
    script = ROOT / "examples" / "stretched" / "stretched_cluster.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, read, back = done.stdout.splitlines()
    assert read.endswith("every one that was acknowledged, each once")
    assert back == "rack middle is back, and all copies are in sync"

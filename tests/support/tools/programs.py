"""Programs that a test needs."""

from __future__ import annotations

import os
import shutil

import pytest


def require_tool(name: str) -> str:
    """The path of a program; without it the test is skipped, or fails in CI."""
    path = shutil.which(name)
    if path is None:
        reason = f"{name} is not installed; `make setup` names the package that contains it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path

"""The names of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ruslo


def test_every_name_is_there() -> None:
    for name in ruslo.__all__:
        assert getattr(ruslo, name) is not None
    assert set(ruslo.__all__) <= set(dir(ruslo))
    assert set(ruslo._HOME_OF) == set(ruslo.__all__)


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Produser'"):
        ruslo.Produser  # noqa: B018


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import ruslo, sys; print(sorted(m for m in sys.modules if m.split('.')[0] in {HEAVY}))"
    heavy = {"confluent_kafka", "asyncio", "uvloop", "click", "logging", "concurrent"}
    done = subprocess.run(
        [sys.executable, "-c", script.replace("HEAVY", repr(heavy)[1:-1])], capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr

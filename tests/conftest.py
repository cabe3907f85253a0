"""Options that every kind of test shares."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.async_tests"]


def pytest_configure() -> None:
    # The duration of an example depends on the load of the machine.
    settings.register_profile("ruslo", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("ruslo")
    # Commands must not find the profiles of the user who runs the tests.
    os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="ruslo-tests-config-")
    os.environ.pop("RUSLO_PROFILE", None)
    # A shell that runs the tests in the background has SIGINT ignored, and so would the commands they start,
    # some of which are to be interrupted.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["XDG_CONFIG_HOME"], ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=["ruslo", "kafka"],
        default="ruslo",
        help="the broker of the interop tests; `kafka` proves the tests themselves against Apache Kafka",
    )


BUSY = ("pipeline", "sim")
"""Folders whose tests compute. Those of the others, except unit tests, mostly wait for processes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let files that compute alternate with files that wait, so the workers use the processors all the time.

    Thousands of short unit tests come last, so all workers end at about the same time.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    # Spark starts faster in all other tests with the archive that this file's tests build.
    first = [path for path in files if path.name == "test_class_archive.py"]
    folders = {path: path.relative_to(Path(__file__).parent).parts[0] for path in files}
    busy = [path for path in files if folders[path] in BUSY and path not in first]
    short = [path for path in files if folders[path] == "unit"]
    waiting = [path for path in files if path not in {*first, *busy, *short}]
    alternating = [path for pair in zip_longest(busy, waiting) for path in pair if path is not None]
    items[:] = [item for path in (*first, *alternating, *short) for item in files[path]]


@pytest.fixture(autouse=True, scope="session")
def own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the pipelines of tests apart from those of the user."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True, scope="module")
def no_pipelines_of_other_files(own_state_folder: Path) -> None:
    for each in own_state_folder.iterdir():
        shutil.rmtree(each)

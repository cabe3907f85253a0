"""Options that every kind of test shares."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Spark starts faster in all other tests with the archive that these tests build.
    items.sort(key=lambda item: item.path.name != "test_class_archive.py")


@pytest.fixture(autouse=True, scope="session")
def own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep pipelines of tests apart from those of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield

"""pytest fixtures with a real broker or cluster. They are available when the package is installed.

``ruslo_broker``
    One broker for the test session (with pytest-xdist, one per process), started by the first test that uses
    it. Tests share it, so each test should use its own topics.

``ruslo_broker_factory``
    A function that starts another broker: ``ruslo_broker_factory({"num.partitions": "3"})``. Its brokers are
    closed at the end of the test. A test can stop, kill and restart them.

``ruslo_cluster``
    A cluster of three nodes for one test, which can kill, pause, partition and restart them.

``ruslo_cluster_factory``
    A function that starts such clusters: ``ruslo_cluster_factory(5, {"min.insync.replicas": "3"})``.

When a test that uses one of the first two fails, the end of the broker's log is shown with the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ruslo.testing.embedded import EmbeddedBroker
    from ruslo.testing.embedded_cluster import EmbeddedCluster

_BROKERS = pytest.StashKey["list[EmbeddedBroker]"]()
_NO_BROKERS: list[EmbeddedBroker] = []


@pytest.fixture(scope="session")
def ruslo_broker() -> Iterator[EmbeddedBroker]:
    """A broker that all tests of the session share."""
    from ruslo.testing.embedded import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def ruslo_broker_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., EmbeddedBroker]]:
    """Start brokers for one test: ``factory(properties, data_dir=…, port=…)``."""
    from ruslo.testing.embedded import EmbeddedBroker

    brokers: list[EmbeddedBroker] = []
    request.node.stash[_BROKERS] = brokers

    # Close all brokers, even if closing one of them raises because it had crashed.
    with ExitStack() as opened:

        def start(properties: Mapping[str, str] | None = None, **options: object) -> EmbeddedBroker:
            broker = EmbeddedBroker(properties, **options)  # type: ignore[arg-type]  # its own options
            brokers.append(broker)
            opened.callback(broker.close)
            return broker.start()

        yield start


@pytest.fixture
def ruslo_cluster(ruslo_cluster_factory: Callable[..., EmbeddedCluster]) -> EmbeddedCluster:
    """A cluster of three nodes for one test."""
    return ruslo_cluster_factory()


@pytest.fixture
def ruslo_cluster_factory() -> Iterator[Callable[..., EmbeddedCluster]]:
    """Start clusters for one test: ``factory(nodes, properties, racks=…)``."""
    from ruslo.testing.embedded_cluster import EmbeddedCluster

    with ExitStack() as opened:

        def start(
            nodes: int = 3, properties: Mapping[str, str] | None = None, **options: object
        ) -> EmbeddedCluster:
            cluster = EmbeddedCluster(nodes, properties, **options)  # type: ignore[arg-type]  # its own
            opened.callback(cluster.close)
            return cluster.start()

        yield start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        brokers = [*item.stash.get(_BROKERS, _NO_BROKERS)]
        shared = getattr(item, "funcargs", {}).get("ruslo_broker")
        if shared is not None:
            brokers.append(shared)
        for broker in brokers:
            report.sections.append(("ruslo broker log", broker.output()))
    return report

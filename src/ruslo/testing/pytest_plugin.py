"""pytest fixtures that give a test a real broker. Installed with the package; nothing to import.

``ruslo_broker``
    One broker for the whole test session (for each process with pytest-xdist), started by the first test that
    asks for it. Tests share it, so each should use topics of its own.

``ruslo_broker_factory``
    A function that starts another broker: ``ruslo_broker_factory({"num.partitions": "3"})``. Its brokers are
    closed when the test ends; stop, kill and restart them as you like.

``ruslo_cluster``
    Three nodes that form one cluster, for this test alone; kill, pause, part and restart them as you like.

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
    """A broker that the whole session shares."""
    from ruslo.testing.embedded import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def ruslo_broker_factory(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., EmbeddedBroker]]:
    """Start brokers for this test alone: ``factory(properties, data_dir=…, port=…)``."""
    from ruslo.testing.embedded import EmbeddedBroker

    brokers: list[EmbeddedBroker] = []
    request.node.stash[_BROKERS] = brokers

    # All of them are closed, also when one raises because it had ended by itself.
    with ExitStack() as opened:

        def start(properties: Mapping[str, str] | None = None, **options: object) -> EmbeddedBroker:
            broker = EmbeddedBroker(properties, **options)  # type: ignore[arg-type]  # its own options
            brokers.append(broker)
            opened.callback(broker.close)
            return broker.start()

        yield start


@pytest.fixture
def ruslo_cluster(ruslo_cluster_factory: Callable[..., EmbeddedCluster]) -> EmbeddedCluster:
    """Three nodes for this test alone."""
    return ruslo_cluster_factory()


@pytest.fixture
def ruslo_cluster_factory() -> Iterator[Callable[..., EmbeddedCluster]]:
    """Start clusters for this test alone: ``factory(nodes, properties, racks=…)``."""
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
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        brokers = [*item.stash.get(_BROKERS, _NO_BROKERS)]
        shared = getattr(item, "funcargs", {}).get("ruslo_broker")
        if shared is not None:
            brokers.append(shared)
        for broker in brokers:
            report.sections.append(("ruslo broker log", broker.output()))
    return report

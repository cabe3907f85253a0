"""A broker for clients of other projects: Ruslo, or Apache Kafka with `--target=kafka`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.groups.group_members import GROUP_NODE_PROPERTIES
from tests.support.share.share_node import new_share_node
from tests.support.tools.programs import require_tool

TopicMaker = Callable[..., str]


@pytest.fixture(scope="session")
def needs_java() -> None:
    require_tool("java")


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One running node for all interop tests of this process; each test uses its own topics."""
    directory = tmp_path_factory.mktemp("node")
    node: Node
    if request.config.getoption("--target") == "kafka":
        require_tool("java")
        node = ApacheKafka(directory, properties=GROUP_NODE_PROPERTIES)
    else:
        node = RusloNode(directory, properties=GROUP_NODE_PROPERTIES)
    with node:
        yield node


@pytest.fixture(scope="session")
def share_node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with short intervals of share groups."""
    with new_share_node(tmp_path_factory.mktemp("node"), request.config.getoption("--target")) as node:
        yield node


@pytest.fixture(scope="session")
def bootstrap(node: Node) -> str:
    return node.bootstrap


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture
def new_topic(admin: AdminClient, request: pytest.FixtureRequest) -> TopicMaker:
    """Creates topics with names that no other test uses."""
    counter = itertools.count()
    stem = "".join(
        character if character.isalnum() else "-" for character in f"{request.path.stem}-{request.node.name}"
    )

    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"{stem}-{next(counter)}"
        topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config or {}))
        admin.create_topics([topic])[name].result(timeout=30)
        return name

    return make


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group id that no other test uses."""
    return f"{request.path.stem}-{request.node.name}"

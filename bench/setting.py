"""The setting of a scenario: its load program, a node on an empty directory, and topics."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers.node import Node
from tests.support.network.ports import partitions_without_offsets

Figures = dict[str, float]


@dataclass(frozen=True)
class Conditions:
    """The load program, the data directory, the scale, and the memory to touch before each measurement."""

    program: Path
    folder: Path
    divisor: int
    warm_bytes: int


@dataclass(frozen=True)
class Setting(Conditions):
    """The conditions of a measurement and the node that is measured."""

    new_node: Callable[[Path], Node]

    @classmethod
    def under(cls, conditions: Conditions, new_node: Callable[[Path], Node]) -> Setting:
        return cls(**vars(conditions), new_node=new_node)

    def with_node(self, new_node: Callable[[Path], Node]) -> Setting:
        return replace(self, new_node=new_node)


@contextlib.contextmanager
def running_node(setting: Setting) -> Iterator[Node]:
    """A node of the contender on an empty directory that is removed afterwards."""
    shutil.rmtree(setting.folder, ignore_errors=True)
    node = setting.new_node(setting.folder)
    try:
        yield node
    finally:
        node.kill()
        shutil.rmtree(setting.folder, ignore_errors=True)


def create_topics(node: Node, topics: dict[str, int]) -> None:
    """Create topics (name to partition count) in one request and return when every partition responds."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    wanted = [NewTopic(name, num_partitions=count, replication_factor=1) for name, count in topics.items()]
    for future in admin.create_topics(wanted, operation_timeout=60).values():
        future.result()
    wait_until_served(node, topics)


def wait_until_served(node: Node, topics: dict[str, int], timeout_s: float = 180) -> None:
    """Return when every partition responds; topic by topic, so that the requests are not a load."""
    deadline = time.monotonic() + timeout_s
    for topic, partitions in topics.items():
        while not is_served(node, {topic: partitions}):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{node.name} does not serve {topic}\n{node.log_tail(10)}")
            time.sleep(0.02)


def is_served(node: Node, topics: dict[str, int]) -> bool:
    try:
        return partitions_without_offsets("127.0.0.1", node.port, topics) == 0
    except OSError:  # it does not listen yet
        return False


def delete_topics(node: Node, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.delete_topics(names, operation_timeout=60).values():
        future.result()

"""Three nodes lose one of two log directories: other brokers lead, and acknowledged records are read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

pytest.register_assert_rewrite("tests.support.checks.cli_checks")

from tests.support.brokers.quorum import QuorumCluster  # noqa: E402
from tests.support.checks.cli_checks import Cli  # noqa: E402
from tests.support.clients.steady_producer import SteadyProducer  # noqa: E402

PARTITIONS = 6
RECORDS = 500


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[QuorumCluster]:
    with QuorumCluster(tmp_path, data_dirs=2, properties={"min.insync.replicas": "2"}) as cluster:
        yield cluster.start()


def test_other_brokers_lead_the_partitions_of_a_failed_directory(cluster: QuorumCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    # Segments roll after a second: open files survive the loss of their directory, new files do not.
    topic = NewTopic("t", PARTITIONS, 3, config={"segment.ms": "1000", "min.insync.replicas": "2"})
    admin.create_topics([topic], operation_timeout=30)["t"].result(30)
    with SteadyProducer(cluster.bootstrap, "t", PARTITIONS) as producer:
        producer.wait_for_more(RECORDS)
        node = cluster.nodes[leader_of(admin, 0)]
        # The metadata log is in the first directory: a node stops without it.
        lost = node.data_dirs[1]
        there = {int(path.name.removeprefix("t-")) for path in lost.glob("t-*")}
        assert there, "a broker spreads its replicas over its directories"
        shutil.rmtree(lost)

        def only_these_moved() -> bool | None:
            partitions = admin.list_topics("t", timeout=60).topics["t"].partitions
            out_of_sync = {index for index, each in partitions.items() if node.node_id not in each.isrs}
            led = {index for index, each in partitions.items() if each.leader == node.node_id}
            return (out_of_sync == there and not led & there) or None

        cluster.until(only_these_moved)
        producer.wait_for_every_partition()
        cluster.until(only_these_moved)
    producer.check(cluster.bootstrap)

    cli = Cli(cluster.bootstrap)
    directories = cli.json("cluster", "info")["log_directories"]
    states = {(each["broker"], each["path"]): each["error"] for each in directories}
    assert states.pop((node.node_id, str(lost))) == "KAFKA_STORAGE_ERROR"
    assert set(states.values()) == {None}


def leader_of(admin: AdminClient, partition: int) -> int:
    return admin.list_topics("t", timeout=60).topics["t"].partitions[partition].leader

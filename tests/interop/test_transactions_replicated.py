"""Java transactions on three nodes: acks wait for followers, which adds states that one node lacks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.testing import EmbeddedCluster
from tests.support.tools.kafka_jars import support_java_command
from tests.support.tools.programs import require_tool
from tests.support.txns.transactional_clients import committed_messages

PRODUCERS = 3
TRANSACTIONS = 20
FINISHED_WITHIN_S = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    require_tool("java")
    with EmbeddedCluster() as cluster:
        yield cluster


def test_a_batch_that_is_committed_while_another_is_verified_is_acknowledged(
    cluster: EmbeddedCluster,
) -> None:
    """The first partition is already in the transaction, so its batch is committed while the batch of the
    second one still waits for the coordinator, which is mostly another node."""
    topic = "partial-verification"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 2, replica_assignment=[[1, 2, 3], [1, 2, 3]])])[topic].result(30)
    producers = [
        subprocess.Popen(
            support_java_command(
                "PartialVerification",
                cluster.bootstrap,
                topic,
                f"producer-{number}",
                str(TRANSACTIONS),
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(PRODUCERS)
    ]
    for producer in producers:
        output, _ = producer.communicate(timeout=FINISHED_WITHIN_S)
        assert producer.returncode == 0, output
    assert len(committed_messages(cluster.bootstrap, topic, 2)) == 3 * TRANSACTIONS * PRODUCERS

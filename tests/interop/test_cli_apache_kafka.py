"""The commands and the clients with Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.support.checks.cli_checks", "tests.support.checks.client_checks")

from ruslo.client.librdkafka.consumer import Consumer  # noqa: E402
from ruslo.client.librdkafka.producer import Producer  # noqa: E402
from ruslo.model.topics import TopicPartition  # noqa: E402
from tests.support.brokers.kafka import ApacheKafka  # noqa: E402
from tests.support.checks.cli_checks import CliChecks  # noqa: E402
from tests.support.checks.client_checks import ClientChecks, read_all  # noqa: E402
from tests.support.tools.programs import require_tool  # noqa: E402


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_tool("java")
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka")) as kafka:
        yield kafka.bootstrap


class TestCommandsWithApacheKafka(CliChecks):
    pass


class TestClientsWithApacheKafka(ClientChecks):
    pass


def test_a_group_continues_at_its_committed_offset(bootstrap: str) -> None:
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for number in range(6):
            producer.send("grouped", b"%d" % number)
    config = {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    with Consumer({**config, "enable.auto.commit": False}) as consumer:
        consumer.subscribe(["grouped"])
        assert [record.offset for record in read_all(consumer, 6)] == [0, 1, 2, 3, 4, 5]
        consumer.commit({TopicPartition("grouped", 0): 4})
    with Consumer({**config, "enable.auto.commit": False}) as consumer:
        consumer.subscribe(["grouped"])
        assert [record.value for record in read_all(consumer, 2)] == [b"4", b"5"]
        consumer.commit()

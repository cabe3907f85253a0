"""Lost responses: the broker has stored records, but the client does not know it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.ruslo import RusloNode
from tests.support.network.lossy_relay import LossyRelay
from tests.support.txns.transactional_clients import CALL_S, new_transactional, read_committed

PRODUCE = 0
TOPIC = "orders"


@pytest.fixture
def relay(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LossyRelay]:
    """The only access to a broker (with `--target=kafka`, to Apache Kafka) is this relay."""
    system = ApacheKafka if request.config.getoption("--target") == "kafka" else RusloNode
    with LossyRelay() as relay:
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{relay.port}"}
        with system(tmp_path, properties=advertised) as node:
            relay.forward_to(node.port)
            admin = AdminClient({"bootstrap.servers": relay.bootstrap, "log_level": 0})
            admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])[TOPIC].result(
                CALL_S
            )
            yield relay


def commit(producer: Producer, values: list[bytes]) -> None:
    """Retry until the commit succeeds, as an application would."""
    for _ in range(5):
        producer.begin_transaction()
        try:
            for value in values:
                producer.produce(TOPIC, value, partition=0)
            producer.commit_transaction(CALL_S)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(CALL_S)
        else:
            return
    raise AssertionError(f"{values} could not be committed")


def test_transaction_after_an_abort_is_not_mistaken_for_the_aborted_one(relay: LossyRelay) -> None:
    """Apache Kafka 4.3 fails this test: "second" is acked and committed, but no consumer ever reads it.

    On abort librdkafka (2.16) drops records that it would retry, and reuses their sequences.
    """
    producer = new_transactional(relay.bootstrap, "shop")
    commit(producer, [b"first"])
    producer.begin_transaction()
    relay.drop_next_response(PRODUCE)
    producer.produce(TOPIC, b"aborted", partition=0)
    while not relay.dropped.wait(0.05):
        producer.poll(0)
    # The client drops the record now, before it can be sent again, and ends the transaction later.
    with pytest.raises(KafkaException) as unreachable:
        producer.abort_transaction(1)
    assert unreachable.value.args[0].code() == KafkaError._TIMED_OUT
    relay.reopen()
    producer.abort_transaction(CALL_S)

    commit(producer, [b"second"])
    commit(producer, [b"third"])
    assert read_committed(relay.bootstrap, TOPIC) == [b"first", b"second", b"third"]

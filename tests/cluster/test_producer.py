"""ruslo.Producer with a real broker, and without one."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ruslo
from ruslo.cli.running import with_admin
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.settings.setting import ClientConfigValue
from ruslo.testing import EmbeddedBroker
from tests.support.network.tls import tls_listener

_numbers = itertools.count()
Config = dict[str, ClientConfigValue]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def config(broker: EmbeddedBroker) -> Config:
    return {"bootstrap.servers": broker.bootstrap, "log_level": 0}


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    name = f"topic-{next(_numbers)}"

    async def create(admin: Admin) -> None:
        await admin.topics.create([NewTopic(name, partitions=3)])

    with_admin(broker.bootstrap, create)
    return name


def values(config: Config, topic: str) -> list[bytes | None]:
    """All committed values of a topic by partition."""
    found = []
    settings = {**config, "isolation.level": "read_committed", "enable.partition.eof": True}
    with ruslo.Consumer(settings) as consumer:
        partitions = [ruslo.TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        consumer.assign(dict.fromkeys(partitions, ruslo.START))
        open_partitions = set(partitions)
        while open_partitions:
            for event in consumer.poll_events(10):
                if isinstance(event, ruslo.PartitionEnd):
                    open_partitions.discard(ruslo.TopicPartition(event.topic, event.partition))
                else:
                    found.append(event.value)
    return found


def number_as_text(number: int) -> bytes:
    return b"%d" % number


def test_a_record_is_acknowledged_in_the_background(config: Config, topic: str) -> None:
    with ruslo.Producer(config) as producer:
        stored = producer.send(topic, "hello", key="k", partition=1).result(30)
        assert (stored.topic, stored.partition, stored.offset) == (topic, 1, 0)
        deliveries = producer.send_many(topic, [b"%d" % n for n in range(100)])
        producer.flush()
        assert all(delivery.done() for delivery in deliveries)
        assert len(producer) == 0


def test_keys_go_where_java_puts_them(config: Config, topic: str) -> None:
    # The results of Kafka's murmur2 for these keys; its partitioner drops the sign.
    hashes = {"21": -973_932_308, "a": -1_563_381_124, "foobar": -790_332_482}
    with ruslo.Producer(config) as producer:
        partitions = {key: producer.send(topic, b"", key=key).result(30).partition for key in hashes}
    assert partitions == {key: (value & 0x7FFFFFFF) % 3 for key, value in hashes.items()}


def test_serializers_and_partitioner_are_callables(config: Config, topic: str) -> None:
    seen: list[tuple[str, bytes | None, int]] = []

    def last(topic: str, key: bytes | None, partitions: int) -> int:
        seen.append((topic, key, partitions))
        return partitions - 1

    producer = ruslo.Producer(
        config, key_serializer=number_as_text, value_serializer=str.upper, partitioner=last
    )
    with producer:
        assert producer.send(topic, "loud", key=7).result(30).partition == 2
    assert seen == [(topic, b"7", 3)]
    assert values(config, topic) == [b"LOUD"]


def test_values_that_are_not_bytes_need_a_serializer(config: Config, topic: str) -> None:
    with ruslo.Producer(config) as producer, pytest.raises(ruslo.ConfigError, match="pass value_serializer="):
        producer.send(topic, {"a": 1})  # type: ignore[arg-type]


def test_a_header_key_that_utf8_cannot_encode_does_not_crash_the_process(config: Config, topic: str) -> None:
    with ruslo.Producer(config) as producer:
        with pytest.raises(UnicodeEncodeError):
            producer.send(topic, b"v", headers=[("caf\udce9", b"")])
        assert producer.send(topic, b"v", headers=[("café", b"")]).result(30).offset == 0


def test_round_robin(config: Config, topic: str) -> None:
    rotating = {**config, "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}
    with ruslo.Producer(rotating) as producer:
        partitions = [producer.send(topic, b"x", key="same").result(30).partition for _ in range(6)]
    assert partitions == [0, 1, 2, 0, 1, 2]


def test_a_topic_that_is_not_created(
    ruslo_broker_factory: Callable[..., EmbeddedBroker],
) -> None:
    broker = ruslo_broker_factory({"auto.create.topics.enable": "false"})
    config: Config = {"bootstrap.servers": broker.bootstrap, "max.block.ms": 300, "log_level": 0}
    with ruslo.Producer(config) as producer:
        with pytest.raises(ruslo.RequestTimedOut, match=r"'none' was not found within 300 ms \(max\.block"):
            producer.send("none", b"x")
        with pytest.raises(ruslo.KafkaError) as caught:
            producer.send("not a name", b"x")
        assert caught.value.code == ruslo.ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_partition_that_does_not_exist(config: Config, topic: str) -> None:
    """The error comes at once, not after max.block.ms."""
    with ruslo.Producer(config) as producer:
        with pytest.raises(ruslo.KafkaError, match=r"no partition 77: it has 3 partitions, 0 to 2") as caught:
            producer.send(topic, b"x", partition=77)
        assert caught.value.code == ruslo.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_tls_client_on_a_plaintext_listener_fails_at_once(config: Config, topic: str) -> None:
    with (
        ruslo.Producer({**config, "security.protocol": "SSL"}) as producer,
        pytest.raises(ruslo.KafkaError, match=r"is a listener without TLS"),
    ):
        producer.send(topic, b"x")


def test_an_untrusted_certificate_fails_at_once(tmp_path: Path) -> None:
    with tls_listener(tmp_path) as port:
        config: Config = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SSL",
            "log_level": 0,
        }
        with (
            ruslo.Producer(config) as producer,
            pytest.raises(ruslo.KafkaError, match=r"certificate verify failed"),
        ):
            producer.send("t", b"x")


def test_headers_may_be_a_dict(config: Config, topic: str) -> None:
    with ruslo.Producer(config) as producer:
        producer.send(topic, b"v", headers={"trace": b"7", "empty": None}, partition=0).result(30)
    with ruslo.Consumer(config) as consumer:
        consumer.assign({ruslo.TopicPartition(topic, 0): ruslo.START})
        assert list(next(iter(consumer)).headers) == [("trace", b"7"), ("empty", None)]


@pytest.mark.parametrize("headers", [["trace"], [("a", 1)], [("a", b"", b"")], [(1, b"")], 7])
def test_invalid_headers_are_rejected_with_a_reason(config: Config, topic: str, headers: Any) -> None:
    with ruslo.Producer(config) as producer, pytest.raises(ruslo.ConfigError, match="pass a dict or a list"):
        producer.send(topic, b"v", headers=headers)


def test_a_record_that_is_too_large(config: Config, topic: str) -> None:
    with ruslo.Producer({**config, "max.request.size": 2000}) as producer:
        with pytest.raises(ruslo.KafkaError, match=r"more than max\.request\.size \(2000\)") as caught:
            producer.send(topic, b"x" * 3000)
        assert caught.value.code == ruslo.ErrorCode.MESSAGE_TOO_LARGE
        producer.send(topic, b"x" * 1000)


def test_without_a_broker_metadata_is_missing() -> None:
    config: Config = {"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 700, "log_level": 0}
    producer = ruslo.Producer(config)
    with pytest.raises(ruslo.RequestTimedOut, match=r"last error: .*[Cc]onnect"):
        producer.send("t", b"x")
    producer.close()


def test_a_full_buffer_blocks_and_then_raises(ruslo_broker_factory: Callable[..., EmbeddedBroker]) -> None:
    broker = ruslo_broker_factory()
    config: Config = {
        "bootstrap.servers": broker.bootstrap,
        "buffer.memory": 50_000,
        "max.block.ms": 400,
        "log_level": 0,
    }
    producer = ruslo.Producer(config)
    producer.send("t", b"first").result(30)
    broker.stop()
    sent = []

    def send_forever() -> None:
        while True:
            sent.append(producer.send("t", b"x" * 1000))

    with pytest.raises(ruslo.BufferExhausted, match=r"of 50000 bytes \(buffer.memory\) stayed full for 400"):
        send_forever()
    assert len(sent) == 50_000 // (1000 + 82)
    assert not any(delivery.done() for delivery in sent)
    # The broker is back: accepted records are stored, and a blocked send gets its buffer memory.
    results: list[ruslo.Delivery] = []
    patient = threading.Thread(target=lambda: results.extend(_send_with_retries(producer, 20)))
    patient.start()
    broker.start()
    patient.join(60)
    producer.flush(60)
    assert [delivery.result(0).offset for delivery in [*sent, *results]] == list(range(1, len(sent) + 21))
    producer.close()


def _send_with_retries(producer: ruslo.Producer, count: int) -> Iterator[ruslo.Delivery]:
    while count:
        try:
            yield producer.send("t", b"y" * 1000)
            count -= 1
        except ruslo.BufferExhausted:
            continue


def test_delivery_timeout_ends_a_record(ruslo_broker_factory: Callable[..., EmbeddedBroker]) -> None:
    broker = ruslo_broker_factory()
    config: Config = {
        "bootstrap.servers": broker.bootstrap,
        "delivery.timeout.ms": 1200,
        "request.timeout.ms": 1000,
        "log_level": 0,
    }
    producer = ruslo.Producer(config)
    producer.send("t", b"first").result(30)
    broker.stop()
    lost = producer.send("t", b"x")
    assert isinstance(lost.exception(30), ruslo.RequestTimedOut)
    unseen = producer.send("t", b"x")
    with pytest.raises(ruslo.KafkaError, match="1 records were not stored"):
        producer.close()
    assert unseen.done()


def test_closing_with_a_timeout_drops_unacknowledged_records(
    ruslo_broker_factory: Callable[..., EmbeddedBroker],
) -> None:
    broker = ruslo_broker_factory()
    producer = ruslo.Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.send("t", b"first").result(30)
    broker.stop()
    lost = producer.send("t", b"x")
    with pytest.raises(ruslo.RequestTimedOut, match=r"1 records were not acknowledged within 0.2 s"):
        producer.close(0.2)
    assert isinstance(lost.exception(30), ruslo.KafkaError)


# -- transactions


def test_a_transaction_is_all_or_nothing(config: Config, topic: str) -> None:
    with ruslo.Producer({**config, "transactional.id": topic}) as producer:
        with producer.transaction():
            producer.send(topic, b"kept", partition=0)
        with pytest.raises(ZeroDivisionError):
            _fail_in_transaction(producer, topic)
        with producer.transaction():
            producer.send(topic, b"kept too", partition=0)
    assert values(config, topic) == [b"kept", b"kept too"]


def _fail_in_transaction(
    producer: ruslo.Producer, topic: str, consumer: ruslo.Consumer | None = None
) -> None:
    with producer.transaction() as transaction:
        producer.send(topic, b"dropped", partition=0)
        if consumer is not None:
            transaction.send_offsets(consumer)
        raise ZeroDivisionError


def test_offsets_of_a_consumer_in_a_transaction(config: Config, topic: str) -> None:
    target = f"{topic}-out"
    with ruslo.Producer(config) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
    tp = ruslo.TopicPartition(topic, 0)
    reading: Config = {
        **config,
        "group.id": topic,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "max.poll.records": 4,
    }
    producer = ruslo.Producer({**config, "transactional.id": topic})
    with producer, ruslo.Consumer(reading) as consumer:
        consumer.subscribe([topic])
        records = next(consumer.batches())
        with producer.transaction() as transaction:
            for record in records:
                producer.send(target, record.value)
            transaction.send_offsets(consumer)
        assert consumer.committed([tp]) == {tp: len(records)}
        next(consumer.batches())
        with pytest.raises(ZeroDivisionError):
            _fail_in_transaction(producer, target, consumer)
        assert consumer.committed([tp]) == {tp: len(records)}
    assert values(config, target) == [record.value for record in records]


def test_the_consumer_waits_for_offsets_of_an_open_transaction(config: Config, topic: str) -> None:
    """Reporting no offset would make the consumer start from the beginning."""
    tp = ruslo.TopicPartition(topic, 0)
    reading: Config = {**config, "group.id": topic, "isolation.level": "read_committed"}
    producer = ruslo.Producer({**config, "transactional.id": topic})
    with producer, ruslo.Consumer(reading) as consumer:
        with producer.transaction() as transaction:
            transaction.send_offsets(consumer, {tp: 7})
            with pytest.raises(ruslo.RequestTimedOut, match="no response within 1 s"):
                consumer.committed([tp], 1.0)
        assert consumer.committed([tp]) == {tp: 7}


def test_a_newer_producer_fences_the_older(config: Config, topic: str) -> None:
    transactional: Config = {**config, "transactional.id": topic}
    zombie = ruslo.Producer(transactional)
    with zombie.transaction():
        zombie.send(topic, b"before", partition=0)

    def start_newer_producer() -> None:
        with zombie.transaction():
            zombie.send(topic, b"lost", partition=0)
            with ruslo.Producer(transactional) as successor, successor.transaction():
                successor.send(topic, b"after", partition=0)

    with pytest.raises(ruslo.ProducerFenced, match="a newer producer uses the transactional id"):
        start_newer_producer()
    zombie.close()
    assert values(config, topic) == [b"before", b"after"]


def test_a_transaction_that_timed_out_is_lost(config: Config, topic: str) -> None:
    transactional: Config = {**config, "transactional.id": topic, "transaction.timeout.ms": 1000}
    with ruslo.Producer(transactional) as producer:

        def exceed_timeout() -> None:
            with producer.transaction():
                producer.send(topic, b"late", partition=0).result(30)
                deadline = time.monotonic() + 30
                while _is_open(config, topic) and time.monotonic() < deadline:
                    time.sleep(0.2)

        with pytest.raises(ruslo.TransactionLost, match="the transaction timed out"):
            exceed_timeout()
    assert values(config, topic) == []


def _is_open(config: Config, transactional_id: str) -> bool:
    bootstrap = str(config["bootstrap.servers"])
    (description,) = with_admin(
        bootstrap, lambda admin: admin.transactions.describe([transactional_id])
    ).values()
    return "ongoing" in str(description).lower()


def test_transactions_need_a_transactional_id(config: Config) -> None:
    with (
        ruslo.Producer(config) as producer,
        pytest.raises(ruslo.ConfigError, match=r"set transactional\.id"),
        producer.transaction(),
    ):
        pass


# -- processes


def test_a_fork_leaves_the_parent_s_clients_alone(config: Config, topic: str) -> None:
    producer = ruslo.Producer(config)
    consumer = ruslo.Consumer(config)
    producer.send(topic, b"parent 1", partition=0).result(30)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with producer, consumer:
                try:
                    producer.send(topic, b"wrong")
                except ruslo.ClientUnusable as error:
                    code = 0 if "forked" in str(error) else 2
            del producer, consumer
            with ruslo.Producer(config) as own:
                own.send(topic, b"child", partition=0).result(30)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    producer.send(topic, b"parent 2", partition=0).result(30)
    producer.close()
    consumer.close()
    assert values(config, topic) == [b"parent 1", b"child", b"parent 2"]


def test_a_producer_that_was_not_closed_warns_about_its_records(config: Config, topic: str) -> None:
    script = f"""
import ruslo
producer = ruslo.Producer({{"bootstrap.servers": {config["bootstrap.servers"]!r}, "linger.ms": 60000,
                            "delivery.timeout.ms": 120000}})
producer.send({topic!r}, b"x")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "collected with 1 unsent records: call close() or use 'with'" in done.stderr

"""Clients of other projects on the listeners of a secured node: who they are, and what they may do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.helpers import create_ssl_context
from confluent_kafka import KafkaError

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.model.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import SCRAM, USERS, Secured, add_scram_users, secured_node

LOGINS = [
    ("SSL", ""),
    *(
        (protocol, mechanism)
        for protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        for mechanism in ("PLAIN", *SCRAM)
    ),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured = secured_node(RusloNode, tmp_path_factory.mktemp("secured"))
    secured.node.start()
    try:
        asyncio.run(set_up(secured.addresses["PLAINTEXT"]))
        yield secured
    finally:
        secured.node.stop()


@pytest.fixture(autouse=True)
def no_acls(secured: Secured) -> None:
    asyncio.run(delete_acls(secured))


async def set_up(bootstrap: str) -> None:
    await add_scram_users(bootstrap)
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic("orders", 1, 1)])


async def create_acls(secured: Secured, *acls: Acl) -> None:
    async with Admin(secured.addresses["PLAINTEXT"]) as admin:
        await admin.acls.create(acls)


async def delete_acls(secured: Secured) -> None:
    async with Admin(secured.addresses["PLAINTEXT"]) as admin:
        await admin.acls.delete([AclFilter()])


def topic_acl(user: str, operation: Operation) -> Acl:
    return Acl(
        ResourceType.TOPIC, "orders", PatternType.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW
    )


def librdkafka_settings(
    secured: Secured, protocol: str, mechanism: str, user: str, password: str | None = None
) -> dict[str, str | int]:
    settings: dict[str, str | int] = {
        "bootstrap.servers": secured.addresses[protocol],
        "security.protocol": protocol,
        "message.timeout.ms": 20_000,
        "log_level": 0,
    }
    if protocol.endswith("SSL"):
        settings["ssl.ca.location"] = str(secured.folder / "ca.pem")
    if protocol == "SSL":
        certificate = str(secured.folder / f"{user}.pem")
        settings |= {"ssl.certificate.location": certificate, "ssl.key.location": certificate}
    else:
        settings |= {
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password or USERS[user],
        }
    return settings


def produce(settings: dict[str, str | int]) -> KafkaError | int:
    """The error of one record, or its offset."""
    results: list[KafkaError | int] = []

    def delivered(error: KafkaError | None, record: confluent_kafka.Message) -> None:
        result = error or record.offset()
        assert result is not None
        results.append(result)

    producer = confluent_kafka.Producer(settings)
    producer.produce("orders", b"book", on_delivery=delivered)
    producer.flush(30)
    (result,) = results
    return result


@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
async def test_librdkafka_may_do_what_the_acls_of_its_user_allow(
    secured: Secured, protocol: str, mechanism: str
) -> None:
    settings = librdkafka_settings(secured, protocol, mechanism, "bob")
    denied = produce(settings)
    assert isinstance(denied, KafkaError)
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert isinstance(produce(librdkafka_settings(secured, protocol, mechanism, "admin")), int)

    await create_acls(secured, topic_acl("bob", Operation.WRITE))
    assert isinstance(produce(settings), int)
    assert isinstance(produce(librdkafka_settings(secured, protocol, mechanism, "carol")), KafkaError)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
async def test_librdkafka_with_a_wrong_password_gets_no_connection(secured: Secured, mechanism: str) -> None:
    errors: list[int] = []
    settings = librdkafka_settings(secured, "SASL_SSL", mechanism, "admin", "wrong")
    client = confluent_kafka.Producer(settings, error_cb=lambda error: errors.append(error.code()))
    while KafkaError._AUTHENTICATION not in errors:
        client.poll(0.1)
    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=1)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
async def test_kafka_python_produces_and_consumes(secured: Secured, mechanism: str) -> None:
    await create_acls(secured, topic_acl("alice", Operation.WRITE), topic_acl("alice", Operation.READ))
    settings = {
        "bootstrap_servers": secured.addresses["SASL_SSL"],
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(secured.folder / "ca.pem"),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": USERS["alice"],
    }
    producer = kafka.KafkaProducer(**settings)
    offset = producer.send("orders", b"kafka-python").get(30).offset
    producer.close()
    consumer = kafka.KafkaConsumer(**settings)
    partition = kafka.TopicPartition("orders", 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    assert next(consumer).value == b"kafka-python"
    consumer.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
async def test_aiokafka_produces_and_consumes(secured: Secured, mechanism: str) -> None:
    await create_acls(secured, topic_acl("alice", Operation.WRITE), topic_acl("alice", Operation.READ))
    settings = {
        "bootstrap_servers": secured.addresses["SASL_SSL"],
        "security_protocol": "SASL_SSL",
        "ssl_context": create_ssl_context(cafile=str(secured.folder / "ca.pem")),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": USERS["alice"],
    }
    async with aiokafka.AIOKafkaProducer(**settings) as producer:
        written = await producer.send_and_wait("orders", b"aiokafka")
    async with aiokafka.AIOKafkaConsumer(**settings) as consumer:
        partition = aiokafka.TopicPartition("orders", 0)
        consumer.assign([partition])
        consumer.seek(partition, written.offset)
        assert (await consumer.getone()).value == b"aiokafka"


async def test_a_deleted_acl_ends_the_access_of_an_open_connection(secured: Secured) -> None:
    await create_acls(secured, topic_acl("bob", Operation.WRITE))
    results: list[KafkaError | None] = []
    producer = confluent_kafka.Producer(librdkafka_settings(secured, "SASL_SSL", "SCRAM-SHA-256", "bob"))
    for _ in range(2):
        producer.produce("orders", b"book", on_delivery=lambda error, _: results.append(error))
        producer.flush(30)
        await delete_acls(secured)
    allowed, denied = results
    assert allowed is None
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

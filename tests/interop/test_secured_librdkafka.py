"""librdkafka with OAUTHBEARER: tokens from a callback, and new ones before a session ends (KIP-368)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import NamedTuple

import confluent_kafka
import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import Secured, secured_node
from tests.support.network.oauth_provider import AUDIENCE, ISSUER, OAuthProvider

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
LIFETIME_S = 6
REFRESH_S = 3
"""librdkafka checks once a second whether a token must be replaced; this end leaves it the time."""


class Setup(NamedTuple):
    secured: Secured
    provider: OAuthProvider


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("librdkafka")
    with OAuthProvider() as provider:
        properties = {
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": MODULE,
            "sasl.oauthbearer.jwks.endpoint.url": provider.url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
        secured = secured_node(RusloNode, folder, properties)
        secured.node.start()
        try:
            asyncio.run(create_topic(secured.addresses["PLAINTEXT"]))
            yield Setup(secured, provider)
        finally:
            secured.node.stop()


async def create_topic(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic("orders", 1, 1)])


def test_librdkafka_gets_a_new_token_before_its_session_ends(setup: Setup) -> None:
    issued: list[str] = []
    errors: list[confluent_kafka.KafkaError] = []

    def token(config: str) -> tuple[str, float]:
        now_s = int(time.time())
        issued.append(setup.provider.token("admin", "ec", exp=now_s + LIFETIME_S))
        return issued[-1], float(now_s + REFRESH_S)

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": setup.secured.addresses["SASL_SSL"],
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(setup.secured.folder / "ca.pem"),
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": token,
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    delivered: list[confluent_kafka.KafkaError | None] = []
    while len(issued) < 4:
        producer.produce("orders", b"book", on_delivery=lambda error, _: delivered.append(error))
        assert producer.flush(30) == 0
        time.sleep(0.05)
    assert set(delivered) == {None}
    # On a busy machine the client may be late and connect again, but the broker refuses no token.
    assert confluent_kafka.KafkaError._AUTHENTICATION not in {error.code() for error in errors}

"""Spark's source and sink on secured clusters of Ruslo and of Apache Kafka, with secrets by reference."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import USERS, Secured, add_scram_users, secured_node
from tests.support.tools.programs import require_tool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGINS = [("SSL", ""), ("SASL_SSL", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-512")]


@pytest.fixture(scope="module", params=[RusloNode, ApacheKafka])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    require_tool("java")
    secured = secured_node(request.param, tmp_path_factory.mktemp("secured"))
    passwords = "".join(f"{user}={password}\n" for user, password in USERS.items())
    (secured.folder / "passwords").write_text(passwords)
    with secured.node:
        asyncio.run(set_up(secured.addresses["PLAINTEXT"]))
        yield secured


async def set_up(bootstrap: str) -> None:
    await add_scram_users(bootstrap, ["admin", "bob"])
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(topic_of(*login), 1, 1) for login in LOGINS])


def topic_of(protocol: str, mechanism: str) -> str:
    return f"orders-{protocol}-{mechanism}"


def options(secured: Secured, protocol: str, mechanism: str, user: str) -> dict[str, str]:
    """The options of a client whose password is in a property file."""
    settings = secured.client(protocol, user, mechanism)
    if mechanism:
        jaas = settings["sasl.jaas.config"]
        settings["sasl.jaas.config"] = jaas.replace(
            USERS[user], f"${{file:{secured.folder}/passwords:{user}}}"
        )
    return {f"kafka.{name}": value for name, value in settings.items()}


@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
def test_spark_writes_and_reads_as_the_user_of_its_options(
    spark: SparkSession,
    secured: Secured,
    protocol: str,
    mechanism: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = topic_of(protocol, mechanism)
    admin = options(secured, protocol, mechanism, "admin")
    rows = spark.createDataFrame([("1", "book")], "key STRING, value STRING")
    rows.write.format("ruslo").options(**admin).option("topic", topic).mode("append").save()

    reader = spark.read.format("ruslo").option("subscribe", topic)
    read = reader.options(**admin).load().selectExpr("CAST(value AS STRING)")
    assert [row[0] for row in read.collect()] == ["book"]
    read.explain(extended=True)
    assert USERS["admin"] not in capsys.readouterr().out

    with pytest.raises(Exception, match=r"(?i)authoriz|UNKNOWN_TOPIC|does not exist|no topic"):
        reader.options(**options(secured, protocol, mechanism, "bob")).load().collect()

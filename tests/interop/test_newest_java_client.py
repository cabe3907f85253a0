"""The Java client of Apache Kafka 4.4, whose requests are newer than those of Apache Kafka 4.3."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.interop.conftest import TopicMaker
from tests.support.clients.librdkafka import Sent, produce_all
from tests.support.tools.kafka_jars import newer_clients_jar, support_java_command

pytestmark = pytest.mark.usefixtures("needs_java")

RECORDS = 20


def test_a_transaction_and_a_deleted_group(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    source, copy = new_topic(partitions=2), new_topic()
    produce_all(bootstrap, source, [Sent(b"%d" % number, partition=number % 2) for number in range(RECORDS)])
    command = support_java_command(
        "NewestClient",
        bootstrap,
        source,
        copy,
        group,
        str(RECORDS),
        log_level="DEBUG",
        first=newer_clients_jar(),
    )
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-4000:]
    refused, deleted, unregistered = result.stdout.splitlines()
    assert refused.startswith("GroupNotEmptyException: ")
    assert deleted == "deleted"
    assert unregistered == "UnsupportedVersionException", "it needs a metadata.version of 4.4"
    sent = set(re.findall(r"apiKey=([A-Z_]+), apiVersion=(\d+)", result.stderr))
    assert {("API_VERSIONS", "5"), ("TXN_OFFSET_COMMIT", "6"), ("DELETE_GROUPS", "3")} <= sent

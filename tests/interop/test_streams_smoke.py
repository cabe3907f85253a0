"""Apache Kafka's own smoke test of Kafka Streams, exactly once, on three nodes (``make soak-streams``)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.testing import EmbeddedCluster
from tests.support.tools.kafka_jars import java_command
from tests.support.tools.programs import require_tool

MAIN_CLASS = "org.apache.kafka.streams.tests.StreamsSmokeTest"
OUTPUT_TOPICS = (
    "min",
    "min-suppressed",
    "min-raw",
    "max",
    "sum",
    "sws-raw",
    "sws-suppressed",
    "dif",
    "cnt",
    "avg",
)
TOPICS = ("data", "echo", "fk", "tagg", *OUTPUT_TOPICS)
PARTITIONS = 5
FINISHED_WITHIN_S = 600


@pytest.mark.skipif("RUSLO_STREAMS_SOAK" not in os.environ, reason="takes minutes: make soak-streams")
def test_kafkas_smoke_test_of_streams_succeeds(tmp_path: Path) -> None:
    require_tool("java")
    with EmbeddedCluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in TOPICS]).values():
            created.result(30)

        def command(name: str, mode: str) -> list[str]:
            properties = tmp_path / f"{name}.properties"
            properties.write_text(
                f"bootstrap.servers={cluster.bootstrap}\n"
                f"processing.guarantee=exactly_once_v2\nstate.dir={tmp_path / name}\n"
                "session.timeout.ms=10000\nacks=all\n"
            )
            return java_command(
                MAIN_CLASS, str(properties), mode, java_options=("-Xmx1g", "-XX:+UseSerialGC")
            )

        with (tmp_path / "application.log").open("w") as log:
            application = subprocess.Popen(command("application", "process"), stdout=log, stderr=log)
        try:
            driver = subprocess.run(
                command("driver", "run"), capture_output=True, text=True, timeout=FINISHED_WITHIN_S
            )
        finally:
            application.terminate()
            application.wait(60)
    output = driver.stdout + driver.stderr
    assert "ALL-RECORDS-DELIVERED" in output, output[-4000:]
    assert "SUCCESS" in output, output[-4000:]

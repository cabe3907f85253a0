"""A real broker of Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from tests.support.brokers.node import Node
from tests.support.tools.java_tools import run_tool
from tests.support.tools.kafka_jars import TEST_JAVA_OPTIONS, java_command


class ApacheKafka(Node):
    """A node of Apache Kafka; see Node for its files."""

    name = "Apache Kafka"

    def __init__(
        self,
        directory: Path,
        *,
        data_dirs: Sequence[Path] | None = None,
        properties: Mapping[str, str] | None = None,
        quorum: Literal["standalone", "static"] = "standalone",
        cluster_id: str | None = None,
        node_id: int = 1,
        port: int | None = None,
        controller_port: int | None = None,
        java_options: Sequence[str] = TEST_JAVA_OPTIONS,
    ) -> None:
        super().__init__(
            directory,
            data_dirs=data_dirs,
            properties=properties,
            quorum=quorum,
            cluster_id=cluster_id,
            node_id=node_id,
            port=port,
            controller_port=controller_port,
        )
        self.java_options = tuple(java_options)

    def format(self) -> None:
        """Format the directories as `kafka-storage.sh format` does."""
        arguments = ["format", "-t", self.cluster_id, "-c", str(self.properties_file), *self.format_options]
        if self.quorum == "standalone":
            arguments.append("--standalone")
        result = run_tool("kafka.tools.StorageTool", *arguments)
        if result.returncode != 0:
            raise RuntimeError(f"StorageTool format failed:\n{result.stdout}{result.stderr}")

    def serve_command(self) -> list[str]:
        options = self.java_options
        return java_command("kafka.Kafka", str(self.properties_file), java_options=options, log_level="INFO")

"""The features of a new cluster, compared with Apache Kafka's own mapping."""

from __future__ import annotations

import pytest

from ruslo.broker.node.bootstrap_features import initial_features
from tests.support.tools.java_tools import tool_output

pytestmark = pytest.mark.usefixtures("needs_java")


def test_new_cluster_finalizes_the_same_features_as_apache_kafka() -> None:
    for release in ("3.9", "4.0", "4.1", "4.2", "4.3"):
        mapping = tool_output("kafka.tools.StorageTool", "version-mapping", "--release-version", release)
        levels = dict(line.split(" ")[0].split("=") for line in mapping.splitlines() if "=" in line)
        del levels["kraft.version"]  # kraft.version depends on how the voters are configured.
        ours = initial_features(release, (), dynamic_quorum=True)
        assert {name: int(level) for name, level in levels.items()} == ours, release

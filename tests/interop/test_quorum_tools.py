"""Apache Kafka's own tools describe and change a Ruslo quorum."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ruslo.model.ids import uuid_to_text
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.meta_properties import read_meta_properties
from tests.support.brokers.quorum import QuorumCluster, QuorumNode
from tests.support.tools.java_tools import tool_output
from tests.support.tools.programs import require_tool

TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuorumCluster]:
    """Two voters, one of them also a broker, frequent snapshots, and a controller that may join."""
    require_tool("java")
    properties = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    roles = ("broker,controller", "controller")
    with QuorumCluster(
        tmp_path_factory.mktemp("quorum"), roles=roles, dynamic=True, properties=properties
    ).start() as cluster:
        yield cluster


def quorum(cluster: QuorumCluster, *arguments: str) -> str:
    return tool_output(
        f"{TOOLS}.MetadataQuorumCommand", "--bootstrap-server", cluster.brokers[0].bootstrap, *arguments
    )


def directory_id(node: QuorumNode) -> str:
    meta = read_meta_properties(LocalDisk(str(node.data_dirs[0])))
    assert meta is not None
    return uuid_to_text(meta.directory_id)


def described_replicas(cluster: QuorumCluster) -> dict[int, str]:
    """The role of each node id."""
    described = quorum(cluster, "describe", "--replication")
    rows = [line.split() for line in described.splitlines()[1:] if line.strip()]
    return {int(row[0]): row[-1] for row in rows}


def test_the_quorum_is_described(cluster: QuorumCluster) -> None:
    leader = cluster.leader()
    status = quorum(cluster, "describe", "--status")
    assert re.search(rf"LeaderId:\s+{leader}\b", status)
    assert re.search(r"MaxFollowerLag:\s+\d+", status)
    voters = re.search(r"CurrentVoters:\s+(\[.*\])", status)
    assert voters is not None
    for node in cluster.nodes.values():
        assert f'"directoryId": "{directory_id(node)}"' in voters[1]
        assert f"CONTROLLER://127.0.0.1:{node.controller_port}" in voters[1]
    described = described_replicas(cluster)
    assert described == {node_id: "Leader" if node_id == leader else "Follower" for node_id in cluster.nodes}


def test_a_controller_is_described_directly(cluster: QuorumCluster) -> None:
    controllers = ",".join(f"127.0.0.1:{node.controller_port}" for node in cluster.nodes.values())
    status = tool_output(
        f"{TOOLS}.MetadataQuorumCommand", "--bootstrap-controller", controllers, "describe", "--status"
    )
    assert re.search(rf"LeaderId:\s+{cluster.leader()}\b", status)


def test_a_controller_is_added_and_removed(cluster: QuorumCluster) -> None:
    joining = cluster.add("controller")
    cluster.start([joining])
    cluster.until(lambda: joining.node_id in described_replicas(cluster) or None)
    quorum(cluster, "--command-config", str(joining.properties_file), "add-controller")
    added = described_replicas(cluster)
    assert added[joining.node_id] == "Follower"

    leaving = cluster.leader()
    if leaving == cluster.brokers[0].node_id:
        leaving = 2
    quorum(
        cluster,
        "remove-controller",
        "--controller-id",
        str(leaving),
        "--controller-directory-id",
        directory_id(cluster.nodes[leaving]),
    )
    cluster.leader()

    def observed() -> bool | None:
        """Wait until the controller has fetched from the current leader."""
        return described_replicas(cluster).get(leaving) == "Observer" or None

    cluster.until(observed)


def snapshots(node: QuorumNode) -> list[Path] | None:
    """The snapshots of a node, or None if it has none yet."""
    folder = node.data_dirs[0] / "__cluster_metadata-0"
    found = [path for path in sorted(folder.glob("*.checkpoint")) if not path.name.startswith("0" * 20)]
    return found or None


def test_every_copy_of_the_log_and_every_snapshot_is_kafkas(cluster: QuorumCluster) -> None:
    for node in cluster.nodes.values():
        newest = cluster.until(partial(snapshots, node))[-1]
        folder = node.data_dirs[0] / "__cluster_metadata-0"
        files = [*folder.glob("*.log"), newest]
        dumped = tool_output(
            f"{TOOLS}.DumpLogSegments", "--cluster-metadata-decoder", "--files", ",".join(map(str, files))
        )
        assert "isvalid: false" not in dumped
        assert "Could not" not in dumped
        kinds = ["KRaftVoters", "SnapshotFooter", "REGISTER_CONTROLLER_RECORD"]
        # A node that joined late started with a snapshot of the leader and has a short log.
        if (folder / f"{0:020}.log").exists():
            kinds += ["LeaderChange", "NO_OP_RECORD"]
        for kind in kinds:
            assert kind in dumped, kind

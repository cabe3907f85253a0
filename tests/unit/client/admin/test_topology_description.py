"""Processors and stores as StreamsGroupDescribe v1 returns them."""

from __future__ import annotations

from ruslo.client.admin.topology_description import GLOBAL_STORES, NodeType, described_nodes
from ruslo.protocol.messages.streams_group_describe_response import (
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

SOURCE = TopologyDescriptionNode(name="read", node_type=1, source_topics=["orders"], successors=["write"])
SINK = TopologyDescriptionNode(name="write", node_type=3, sink_topic="bills")


def test_sources_and_sinks_have_topics() -> None:
    description = TopologyDescription(
        subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[SOURCE, SINK])]
    )
    read, write = described_nodes(description)["0"]
    assert (read.node_type, read.topics, read.successors) == (NodeType.SOURCE, ("orders",), ("write",))
    assert (write.node_type, write.topics) == (NodeType.SINK, ("bills",))


def test_global_stores_are_listed_on_their_own() -> None:
    processor = TopologyDescriptionNode(name="fill", node_type=2, stores=["rates"])
    store = TopologyDescriptionGlobalStore(source=SOURCE, processor=processor)
    found = described_nodes(TopologyDescription(global_stores=[store]))
    assert [node.name for node in found[GLOBAL_STORES]] == ["read", "fill"]


def test_node_types_of_newer_clients_are_ignored() -> None:
    unknown = TopologyDescriptionNode(name="new", node_type=9)
    inside = TopologyDescriptionSubtopology(subtopology_id="0", nodes=[unknown, SINK])
    assert [node.name for node in described_nodes(TopologyDescription(subtopologies=[inside]))["0"]] == [
        "write"
    ]


def test_groups_without_description_have_no_nodes() -> None:
    assert described_nodes(None) == {}

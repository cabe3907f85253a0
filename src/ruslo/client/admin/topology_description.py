"""What the application of a streams group says about its topology (KIP-1331): its processors and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from ruslo.protocol.messages import streams_group_describe_response as streams

GLOBAL_STORES = "global stores"
"""The key of the processors that fill global stores; they belong to no subtopology with tasks."""


class NodeType(IntEnum):
    SOURCE = 1
    PROCESSOR = 2
    SINK = 3


_KNOWN_TYPES = frozenset(map(int, NodeType))


@dataclass(frozen=True, slots=True)
class DescribedNode:
    name: str
    node_type: NodeType
    topics: tuple[str, ...] = ()
    """The topics that a source reads or a sink writes; empty if they are only known at run time."""
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()


DescribedNodes: TypeAlias = Mapping[str, Sequence[DescribedNode]]
"""Nodes by subtopology id."""


def described_nodes(description: streams.TopologyDescription | None) -> DescribedNodes:
    if description is None:
        return {}
    found = {each.subtopology_id: _nodes(each.nodes) for each in description.subtopologies}
    if description.global_stores:
        found[GLOBAL_STORES] = _nodes(
            [node for each in description.global_stores for node in (each.source, each.processor)]
        )
    return found


def _nodes(nodes: Sequence[streams.TopologyDescriptionNode]) -> tuple[DescribedNode, ...]:
    """The nodes of known types; newer clients may send others."""
    return tuple(
        DescribedNode(
            node.name,
            NodeType(node.node_type),
            tuple(node.source_topics) if node.sink_topic is None else (node.sink_topic,),
            tuple(node.stores),
            tuple(node.successors),
        )
        for node in nodes
        if node.node_type in _KNOWN_TYPES
    )

"""The topology of a streams group (KIP-1071) as a graph: topics, subtopologies and what is inside them.

Members of every version report the topics of each subtopology. Processors, stores and output topics are only
known if a member has described them (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import NamedTuple, Protocol

from ruslo.client.admin.topology_description import (
    GLOBAL_STORES,
    DescribedNode,
    DescribedNodes,
    NodeType,
)

NODES_MAX = 200
EDGES_PER_NODE_MAX = 3


class Kind(Enum):
    SOURCE_TOPIC = "source topic"
    REPARTITION_TOPIC = "repartition topic"
    CHANGELOG_TOPIC = "changelog topic"
    SINK_TOPIC = "output topic"
    SUBTOPOLOGY = "subtopology"
    SOURCE = "source"
    PROCESSOR = "processor"
    SINK = "sink"
    STORE = "state store"


TOPICS = frozenset({Kind.SOURCE_TOPIC, Kind.REPARTITION_TOPIC, Kind.CHANGELOG_TOPIC, Kind.SINK_TOPIC})


class SubtopologyTopics(Protocol):
    """A subtopology of StreamsGroupDescribe."""

    @property
    def subtopology_id(self) -> str: ...
    @property
    def source_topics(self) -> Sequence[str]: ...
    @property
    def repartition_sink_topics(self) -> Sequence[str]: ...
    @property
    def repartition_source_topics(self) -> Sequence[str]: ...
    @property
    def changelog_topics(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Node:
    node_id: str
    kind: Kind
    name: str
    parent: str | None = None
    """The node id of the subtopology that it is part of."""
    members: tuple[str, ...] = ()
    """The names of the topics that are folded into this node."""


class Edge(NamedTuple):
    start: str
    end: str
    is_state: bool = False
    """Whether it leads to a store or its changelog, not along the flow of records."""


@dataclass(slots=True)
class TopologyGraph:
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[Edge, None] = field(default_factory=dict)
    """An ordered set."""
    hidden_processors: int = 0
    """The number of processors and stores that are not shown, because the graph would have too many nodes."""
    left_out: int = 0
    """The number of topics and subtopologies that are not shown for this reason."""

    def children(self, node_id: str) -> list[Node]:
        return [node for node in self.nodes.values() if node.parent == node_id]

    def next_of(self, node_id: str) -> list[str]:
        return [edge.end for edge in self.edges if edge.start == node_id]


def topology_graph(
    subtopologies: Iterable[SubtopologyTopics],
    described: DescribedNodes | None = None,
    nodes_max: int = NODES_MAX,
) -> TopologyGraph:
    """The graph, folded until it has at most ``nodes_max`` nodes and three times as many edges.

    Processors are folded into their subtopologies first, then topics with the same neighbours into one node,
    then the last nodes are left out.
    """
    found = tuple(subtopologies)
    full = _Builder(found, described or {}).graph
    edges_max = nodes_max * EDGES_PER_NODE_MAX
    if len(full.nodes) <= nodes_max and len(full.edges) <= edges_max:
        return full
    folded = _without_processors(full)
    if len(folded.nodes) > nodes_max or len(folded.edges) > edges_max:
        folded = _fold_topics(folded)
    folded.hidden_processors = sum(node.parent is not None for node in full.nodes.values())
    _truncate(folded, nodes_max, edges_max)
    return folded


_KINDS = {
    NodeType.SOURCE: Kind.SOURCE,
    NodeType.PROCESSOR: Kind.PROCESSOR,
    NodeType.SINK: Kind.SINK,
}


class _Builder:
    def __init__(self, subtopologies: Sequence[SubtopologyTopics], described: DescribedNodes) -> None:
        self.graph = TopologyGraph()
        self._stores: dict[str, list[Node]] = {}
        for each in subtopologies:
            self._add(Node(_subtopology(each.subtopology_id), Kind.SUBTOPOLOGY, each.subtopology_id))
        for each in subtopologies:
            for name in each.source_topics:
                self._topic(name, Kind.SOURCE_TOPIC)
            for name in (*each.repartition_source_topics, *each.repartition_sink_topics):
                self._topic(name, Kind.REPARTITION_TOPIC)
        for each in subtopologies:
            inside = described.get(each.subtopology_id, ())
            internal = (*each.repartition_source_topics, *each.repartition_sink_topics)
            readers, writers = self._add_inside(each.subtopology_id, inside, internal)
            self._connect_topics(each, readers, writers)
        if described.get(GLOBAL_STORES):
            self._add(Node(_subtopology(GLOBAL_STORES), Kind.SUBTOPOLOGY, GLOBAL_STORES))
            self._add_inside(GLOBAL_STORES, described[GLOBAL_STORES], ())

    def _add(self, node: Node) -> str:
        self.graph.nodes.setdefault(node.node_id, node)
        return node.node_id

    def _topic(self, name: str, kind: Kind) -> str:
        return self._add(Node(f"topic {name}", kind, name))

    def _store(self, box: str, name: str) -> str:
        node = Node(f"{box} store {name}", Kind.STORE, name, box)
        if node.node_id not in self.graph.nodes:
            self._stores.setdefault(box, []).append(node)
        return self._add(node)

    def _connect(self, start: str, end: str, *, is_state: bool = False) -> None:
        self.graph.edges[Edge(start, end, is_state)] = None

    def _add_inside(
        self, subtopology_id: str, inside: Sequence[DescribedNode], internal: Sequence[str]
    ) -> tuple[set[str], set[str]]:
        """Add the processors; the topics that they read and write."""
        box = _subtopology(subtopology_id)
        node_ids = {node.name: f"{box} node {node.name}" for node in inside}
        readers, writers = set[str](), set[str]()
        for node in inside:
            self._add(Node(node_ids[node.name], _KINDS[node.node_type], node.name, box))
        for node in inside:
            node_id = node_ids[node.name]
            for successor in node.successors:
                if successor in node_ids:
                    self._connect(node_id, node_ids[successor])
            for store in node.stores:
                self._connect(node_id, self._store(box, store), is_state=True)
            for name in node.topics:
                # The description has internal topics without the application id.
                topic = next((each for each in internal if each.endswith(f"-{name}")), name)
                if node.node_type is NodeType.SOURCE:
                    readers.add(topic)
                    self._connect(self._topic(topic, Kind.SOURCE_TOPIC), node_id)
                else:
                    writers.add(topic)
                    self._connect(node_id, self._topic(topic, Kind.SINK_TOPIC))
        return readers, writers

    def _connect_topics(self, found: SubtopologyTopics, readers: set[str], writers: set[str]) -> None:
        """Connect the subtopology itself to topics that none of its processors is known to use."""
        box = _subtopology(found.subtopology_id)
        for topic in (*found.source_topics, *found.repartition_source_topics):
            if topic not in readers:
                self._connect(f"topic {topic}", box)
        for topic in found.repartition_sink_topics:
            if topic not in writers:
                self._connect(box, f"topic {topic}")
        stores = self._stores.get(box, [])
        for topic in found.changelog_topics:
            store = next((each for each in stores if topic.endswith(f"-{each.name}-changelog")), None)
            # With optimization a store may be restored from its source topic.
            changelog = self._topic(topic, Kind.CHANGELOG_TOPIC)
            self._connect(box if store is None else store.node_id, changelog, is_state=True)


def _subtopology(subtopology_id: str) -> str:
    return f"subtopology {subtopology_id}"


def _without_processors(graph: TopologyGraph) -> TopologyGraph:
    def shown(node_id: str) -> str:
        return graph.nodes[node_id].parent or node_id

    folded = TopologyGraph({key: node for key, node in graph.nodes.items() if node.parent is None})
    for edge in graph.edges:
        start, end = shown(edge.start), shown(edge.end)
        if start != end:
            folded.edges[Edge(start, end, edge.is_state)] = None
    return folded


def _fold_topics(graph: TopologyGraph) -> TopologyGraph:
    """Topics of one kind that the same subtopologies read and write become one node."""
    around: dict[str, list[Edge]] = {key: [] for key in graph.nodes}
    for edge in graph.edges:
        around[edge.start].append(edge)
        around[edge.end].append(edge)
    alike: dict[object, list[str]] = {}
    for key, node in graph.nodes.items():
        if node.kind in TOPICS:
            neighbours = frozenset(
                (edge.start == key, edge.end if edge.start == key else edge.start) for edge in around[key]
            )
            alike.setdefault((node.kind, neighbours), []).append(key)
    replaced: dict[str, str] = {}
    folded = TopologyGraph()
    first_of = {keys[0]: keys for keys in alike.values()}
    for key, node in graph.nodes.items():
        if node.kind not in TOPICS:
            folded.nodes[key] = node
        elif key in first_of:
            names = tuple(graph.nodes[each].name for each in first_of[key])
            if len(names) > 1:
                node = Node(key, node.kind, f"{len(names)} {node.kind.value}s", None, names)
            folded.nodes[key] = node
            replaced |= dict.fromkeys(first_of[key], key)
    for edge in graph.edges:
        start, end = replaced.get(edge.start, edge.start), replaced.get(edge.end, edge.end)
        folded.edges[Edge(start, end, edge.is_state)] = None
    return folded


def _truncate(graph: TopologyGraph, nodes_max: int, edges_max: int) -> None:
    for key in list(graph.nodes)[nodes_max:]:
        del graph.nodes[key]
        graph.left_out += 1
    kept = (edge for edge in graph.edges if edge.start in graph.nodes and edge.end in graph.nodes)
    graph.edges = dict.fromkeys(islice(kept, edges_max))

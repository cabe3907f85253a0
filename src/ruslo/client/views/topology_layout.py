"""Where the nodes and edges of a topology are drawn: from top to bottom, processors in their subtopology."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ruslo.client.views.layered_layout import Box, Layout, Point, Size, layered
from ruslo.client.views.topology_graph import Edge, Node, TopologyGraph

PADDING = 16.0
HEADING_HEIGHT = 34.0


class TopologyLayout:
    def __init__(self, graph: TopologyGraph, size_of: Callable[[Node], Size]) -> None:
        """``size_of``: the size of a node that has no other nodes inside."""
        self._graph = graph
        self._inside: dict[str, Layout] = {}
        for key in dict.fromkeys(node.parent for node in graph.nodes.values() if node.parent is not None):
            sizes = {child.node_id: size_of(child) for child in graph.children(key)}
            links = [
                (edge.start, edge.end) for edge in graph.edges if edge.start in sizes and edge.end in sizes
            ]
            self._inside[key] = layered(sizes, links)
        sizes = {
            key: self._size_around(key) if key in self._inside else size_of(node)
            for key, node in graph.nodes.items()
            if node.parent is None
        }
        links = [(self._outer(edge.start), self._outer(edge.end)) for edge in graph.edges]
        self._outside = layered(sizes, list(dict.fromkeys(links)))
        self.size = self._outside.size
        self.boxes = self._place()
        """The box of each node by node id."""

    @property
    def containers(self) -> Sequence[str]:
        """The node ids of the subtopologies that have other nodes inside."""
        return tuple(self._inside)

    def route(self, edge: Edge) -> list[Point]:
        """The points of an edge: its ends, and its bends between the nodes of other layers."""
        outer = self._outer(edge.start), self._outer(edge.end)
        if outer[0] == outer[1]:
            layout, heading = self._inside[outer[0]], self._origin(outer[0])
            bends = [
                Point(heading.x + bend.x, heading.y + bend.y) for bend in layout.bends[edge.start, edge.end]
            ]
        else:
            bends = list(self._outside.bends[outer])
        start, end = self.boxes[edge.start], self.boxes[edge.end]
        if start.y <= end.y:
            return [Point(start.middle, start.y + start.height), *bends, Point(end.middle, end.y)]
        return [Point(start.middle, start.y), *bends, Point(end.middle, end.y + end.height)]

    def _outer(self, key: str) -> str:
        return self._graph.nodes[key].parent or key

    def _size_around(self, key: str) -> Size:
        inside = self._inside[key].size
        return Size(inside.width + 2 * PADDING, inside.height + HEADING_HEIGHT + PADDING)

    def _origin(self, key: str) -> Point:
        """Where the nodes inside a subtopology begin."""
        box = self._outside.boxes[key]
        return Point(box.x + PADDING, box.y + HEADING_HEIGHT)

    def _place(self) -> dict[str, Box]:
        boxes = dict(self._outside.boxes)
        for key, layout in self._inside.items():
            origin = self._origin(key)
            for child, box in layout.boxes.items():
                boxes[child] = Box(origin.x + box.x, origin.y + box.y, box.width, box.height)
        return boxes

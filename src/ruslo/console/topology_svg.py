"""Draws the topology of a streams group as SVG.

Colours come from classes of the style sheet: the content security policy forbids inline styles. Topics are
links, and processors and stores can be reached with the keyboard as well. Every node has a label for screen
readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from ruslo.client.views.layered_layout import Box, Point, Size
from ruslo.client.views.topology_graph import TOPICS, Edge, Kind, Node, TopologyGraph
from ruslo.client.views.topology_layout import PADDING, TopologyLayout
from ruslo.console.formats import visible
from ruslo.console.render import link

LABEL_MAX = 32
CHARACTER_WIDTH = 7.3
NODE_HEIGHT = 46.0
NODE_PADDING = 13.0
MARGIN = 6.0
TOPICS_IN_LABEL = 20
SHRINKING_WIDTHS = range(1000, 1400)
"""Drawings that may shrink to the width of a page; wider ones would become illegible, so they scroll."""
CYLINDERS = frozenset({Kind.STORE, Kind.CHANGELOG_TOPIC})

_SVG = Markup(
    '<svg class="topology{shrinking}" role="group" aria-labelledby="topology-title" '
    'aria-describedby="topology-summary" width="{width:.0f}" height="{height:.0f}" '
    'viewBox="{left} {left} {width:.0f} {height:.0f}">'
    '<title id="topology-title">Topology of {group}</title><desc id="topology-summary">{summary}</desc>'
    '<defs><marker id="topology-arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0.8 8 4 0 7.2z"/></marker></defs>{parts}</svg>'
)
_CONTAINER = Markup(
    '<rect class="container" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="12"/>'
)
_HEADING = Markup('<text class="heading" x="{x:.1f}" y="{y:.1f}">{text}</text>')
_FLOW = Markup('<path class="edge" d="{path}" marker-end="url(#topology-arrow)"/>')
_STATE = Markup('<path class="edge state" d="{path}"/>')
_TEXTS = Markup(
    '<title>{label}</title>{shape}<text class="kind" x="{x:.1f}" y="{kind_y:.1f}">{kind}</text>'
    '<text x="{x:.1f}" y="{name_y:.1f}">{name}</text>'
)
_TOPIC = Markup('<a class="node {kind}" href="{href}" aria-label="{label}">{texts}</a>')
_OTHER = Markup('<g class="node {kind}" tabindex="0" role="img" aria-label="{label}">{texts}</g>')
_RECTANGLE = Markup('<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}"/>')
_CYLINDER = Markup(
    '<path d="M{left:.1f} {top:.1f}a{radius:.1f} 4 0 0 1 {width:.1f} 0v{height:.1f}'
    'a{radius:.1f} 4 0 0 1 -{width:.1f} 0za{radius:.1f} 4 0 0 0 {width:.1f} 0"/>'
)


def topology_svg(graph: TopologyGraph, group_id: str) -> Markup:
    """An svg element as large as the drawing."""
    drawing = _Drawing(graph, group_id)
    return _SVG.format(
        width=drawing.layout.size.width + 2 * MARGIN,
        height=drawing.layout.size.height + 2 * MARGIN,
        left=-MARGIN,
        shrinking=" shrinking" if int(drawing.layout.size.width) in SHRINKING_WIDTHS else "",
        group=visible(group_id),
        summary=_summary(graph),
        parts=Markup().join(
            [
                *(drawing.container(key) for key in drawing.layout.containers),
                *(drawing.edge(edge) for edge in graph.edges),
                *(drawing.heading(key) for key in drawing.layout.containers),
                *(
                    drawing.node(node)
                    for node in graph.nodes.values()
                    if node.node_id not in drawing.layout.containers
                ),
            ]
        ),
    )


def _summary(graph: TopologyGraph) -> str:
    counts: Counter[Kind] = Counter()
    for node in graph.nodes.values():
        counts[node.kind] += len(node.members) or 1
    listed = ", ".join(f"{count} × {kind.value}" for kind, count in counts.items())
    return f"Records flow from top to bottom. {listed}."


class _Drawing:
    def __init__(self, graph: TopologyGraph, group_id: str) -> None:
        self._graph = graph
        self._prefix = f"{group_id}-"
        self._names = {key: _shortened(visible(self._name(node))) for key, node in graph.nodes.items()}
        self.layout = TopologyLayout(graph, self._size)

    def container(self, key: str) -> Markup:
        return _CONTAINER.format(**self.layout.boxes[key]._asdict())

    def heading(self, key: str) -> Markup:
        box = self.layout.boxes[key]
        return _HEADING.format(x=box.x + PADDING, y=box.y + 22, text=f"Subtopology {self._names[key]}")

    def edge(self, edge: Edge) -> Markup:
        return (_STATE if edge.is_state else _FLOW).format(path=_curve(self.layout.route(edge)))

    def node(self, node: Node) -> Markup:
        box, label = self.layout.boxes[node.node_id], self._label(node)
        lower = 2 if node.kind in CYLINDERS else 0
        texts = _TEXTS.format(
            label=label,
            shape=_shape(node.kind, box),
            x=box.x + NODE_PADDING,
            kind_y=box.y + lower + 18,
            kind=node.kind.value,
            name_y=box.y + lower + 33,
            name=self._names[node.node_id],
        )
        kind = node.kind.name.lower().replace("_", "-")
        if node.kind in TOPICS and not node.members:
            return _TOPIC.format(kind=kind, href=link(f"/topics/{node.name}"), label=label, texts=texts)
        return _OTHER.format(kind=kind, label=label, texts=texts)

    def _size(self, node: Node) -> Size:
        characters = max(len(self._names[node.node_id]), len(node.kind.value))
        return Size(characters * CHARACTER_WIDTH + 2 * NODE_PADDING, NODE_HEIGHT)

    def _name(self, node: Node) -> str:
        """Internal topics without the application id and the suffix that their kind implies."""
        name = node.name
        if node.kind in (Kind.REPARTITION_TOPIC, Kind.CHANGELOG_TOPIC):
            name = name.removeprefix(self._prefix)
            name = name.removesuffix("-repartition" if node.kind is Kind.REPARTITION_TOPIC else "-changelog")
        return name or node.name

    def _label(self, node: Node) -> str:
        if node.members:
            more = len(node.members) - TOPICS_IN_LABEL
            names = ", ".join(node.members[:TOPICS_IN_LABEL]) + (f" and {more} more" if more > 0 else "")
            return visible(f"{node.name}: {names}")
        following = ", ".join(self._graph.nodes[key].name for key in self._graph.next_of(node.node_id))
        return visible(f"{node.kind.value} {node.name}" + (f", leads to {following}" if following else ""))


def _shortened(name: str) -> str:
    if len(name) <= LABEL_MAX:
        return name
    kept = LABEL_MAX - 1
    return f"{name[: kept // 2]}…{name[-(kept - kept // 2) :]}"


def _shape(kind: Kind, box: Box) -> Markup:
    if kind in CYLINDERS:
        return _CYLINDER.format(
            left=box.x, top=box.y + 4, width=box.width, radius=box.width / 2, height=box.height - 8
        )
    return _RECTANGLE.format(**box._asdict(), radius=8 if kind not in TOPICS else NODE_HEIGHT / 2)


def _curve(points: Sequence[Point]) -> str:
    path = f"M{points[0].x:.1f} {points[0].y:.1f}"
    for start, end in pairwise(points):
        half = (end.y - start.y) / 2
        path += f"C{start.x:.1f} {start.y + half:.1f} {end.x:.1f} {end.y - half:.1f} {end.x:.1f} {end.y:.1f}"
    return path

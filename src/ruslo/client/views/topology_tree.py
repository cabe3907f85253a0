"""The topology of a streams group as a tree of text lines, for terminals and screen readers."""

from __future__ import annotations

from collections.abc import Iterator

from ruslo.client.views.topology_graph import Kind, Node, TopologyGraph

LINES_MAX = 1_000
NAMES_SHOWN = 3


def tree_lines(graph: TopologyGraph) -> list[str]:
    """The nodes from the source topics on, each below the one that it follows; a second time only by name."""
    lines: list[str] = []
    for line in _all_lines(graph):
        if len(lines) == LINES_MAX:
            lines.append("…")
            break
        lines.append(line)
    return lines


def _all_lines(graph: TopologyGraph) -> Iterator[str]:
    following: dict[str, list[str]] = {key: [] for key in graph.nodes}
    has_previous: set[str] = set()
    for edge in graph.edges:
        following[edge.start].append(edge.end)
        has_previous.add(edge.end)
    # A subtopology whose processors are shown is named with each of them.
    headings = {node.parent for node in graph.nodes.values()}
    shown: set[str] = set()
    roots = sorted(following, key=lambda key: key in has_previous)
    for root in roots:
        if root in shown or (root in headings and not following[root]):
            continue
        shown.add(root)
        yield _text(graph.nodes[root])
        stack = [("", iter(following[root]), len(following[root]))]
        while stack:
            indent, rest, left = stack.pop()
            key = next(rest, None)
            if key is None:
                continue
            stack.append((indent, rest, left - 1))
            text = _text(graph.nodes[key])
            again = key in shown and bool(following[key])
            yield f"{indent}{'└─' if left == 1 else '├─'} {text}{' (see above)' if again else ''}"
            if key not in shown:
                shown.add(key)
                stack.append(
                    (indent + ("   " if left == 1 else "│  "), iter(following[key]), len(following[key]))
                )
    if graph.hidden_processors:
        yield f"and {graph.hidden_processors} processors and stores"
    if graph.left_out:
        yield f"and {graph.left_out} more topics and subtopologies"


def _text(node: Node) -> str:
    if node.members:
        more = len(node.members) - NAMES_SHOWN
        names = ", ".join(node.members[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
        return f"{node.name}: {names}"
    if node.kind is Kind.SUBTOPOLOGY:
        return f"subtopology {node.name}"
    inside = "" if node.parent is None else f" in {node.parent}"
    return f"{node.name} ({node.kind.value}{inside})"

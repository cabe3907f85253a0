"""Places the nodes of a directed graph in layers from top to bottom, and routes its edges (after Sugiyama).

1. Edges that close a cycle are turned around.
2. The layer of a node is its longest distance from a start.
3. Edges over several layers pass through points in the layers between.
4. Nodes are sorted within their layers by the mean position of their neighbours, if this removes crossings.
5. Nodes move towards their neighbours.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

LAYER_GAP = 34.0
NODE_GAP = 18.0
SPAN_MAX = 16
"""Edges over more layers are drawn straight, so the number of points in between stays bounded."""
ORDER_SWEEPS = 12
ALIGN_SWEEPS = 8

Link: TypeAlias = tuple[str, str]


class Size(NamedTuple):
    width: float
    height: float


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


class Point(NamedTuple):
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Layout:
    boxes: Mapping[str, Box]
    bends: Mapping[Link, Sequence[Point]]
    """The points between the ends of each link that spans several layers, from its start to its end."""
    size: Size


def layered(sizes: Mapping[str, Size], links: Sequence[Link]) -> Layout:
    forward = _without_cycles(sizes, links)
    layer_of = _layers(sizes, set(forward.values()))
    chains: dict[Link, list[str]] = {}
    all_sizes = dict(sizes)
    for start, end in dict.fromkeys(forward.values()):
        chain = [start]
        between = range(layer_of[start] + 1, layer_of[end])
        for layer in between if len(between) < SPAN_MAX else ():
            name = f"\0{len(all_sizes)}"
            all_sizes[name] = Size(0, 0)
            layer_of[name] = layer
            chain.append(name)
        chains[start, end] = [*chain, end]
    segments = [
        pair
        for chain in chains.values()
        for pair in pairwise(chain)
        if layer_of[pair[1]] - layer_of[pair[0]] == 1
    ]
    layers = _ordered(_by_layer(all_sizes, layer_of), segments)
    boxes = _placed(layers, all_sizes, segments)
    bends: dict[Link, list[Point]] = {}
    for link, turned in forward.items():
        points = [Point(boxes[name].x, boxes[name].y) for name in chains[turned][1:-1]]
        bends[link] = points if link == turned else points[::-1]
    width = max((box.x + box.width for box in boxes.values()), default=0.0)
    height = max((box.y + box.height for box in boxes.values()), default=0.0)
    return Layout({name: boxes[name] for name in sizes}, bends, Size(width, height))


def _without_cycles(sizes: Mapping[str, Size], links: Sequence[Link]) -> dict[Link, Link]:
    """Each link without those from a node to itself, turned around if it would close a cycle."""
    following: dict[str, list[str]] = {name: [] for name in sizes}
    incoming = dict.fromkeys(sizes, 0)
    for start, end in links:
        if start != end:
            following[start].append(end)
            incoming[end] += 1
    forward: dict[Link, Link] = {}
    done: set[str] = set()
    open_nodes: set[str] = set()
    for root in sorted(sizes, key=lambda name: incoming[name] > 0):
        if root in done:
            continue
        done.add(root)
        open_nodes.add(root)
        stack = [(root, iter(following[root]))]
        while stack:
            name, rest = stack[-1]
            for end in rest:
                forward[name, end] = (end, name) if end in open_nodes else (name, end)
                if end not in done:
                    done.add(end)
                    open_nodes.add(end)
                    stack.append((end, iter(following[end])))
                    break
            else:
                open_nodes.discard(name)
                stack.pop()
    return forward


def _layers(sizes: Mapping[str, Size], links: set[Link]) -> dict[str, int]:
    following: dict[str, list[str]] = {name: [] for name in sizes}
    incoming = dict.fromkeys(sizes, 0)
    for start, end in links:
        following[start].append(end)
        incoming[end] += 1
    starts = [name for name in sizes if not incoming[name]]
    layer_of = dict.fromkeys(sizes, 0)
    ready = list(starts)
    for name in ready:
        for end in following[name]:
            layer_of[end] = max(layer_of[end], layer_of[name] + 1)
            incoming[end] -= 1
            if not incoming[end]:
                ready.append(end)
    for name in starts:
        # A start is next to the first node that it leads to.
        if following[name]:
            layer_of[name] = min(layer_of[end] for end in following[name]) - 1
    return layer_of


def _by_layer(sizes: Mapping[str, Size], layer_of: Mapping[str, int]) -> list[list[str]]:
    layers: list[list[str]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for name in sizes:
        layers[layer_of[name]].append(name)
    return layers


def _ordered(layers: list[list[str]], segments: Sequence[Link]) -> list[list[str]]:
    before, after = _neighbours(segments)
    best, best_crossings = [list(layer) for layer in layers], _crossings(layers, after)
    position = {name: at for layer in layers for at, name in enumerate(layer)}
    for sweep in range(ORDER_SWEEPS):
        if not best_crossings:
            break
        towards = before if sweep % 2 == 0 else after
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            means = {
                name: _mean([position[each] for each in towards.get(name, ())], position[name])
                for name in layer
            }
            layer.sort(key=means.__getitem__)
            position.update({name: at for at, name in enumerate(layer)})
        crossings = _crossings(layers, after)
        if crossings < best_crossings:
            best, best_crossings = [list(layer) for layer in layers], crossings
    return best


def _crossings(layers: Sequence[Sequence[str]], after: Mapping[str, Sequence[str]]) -> int:
    count = 0
    for left, right in pairwise(layers):
        position = {name: at for at, name in enumerate(right)}
        seen: list[int] = []
        for name in left:
            ends = [position[end] for end in after.get(name, ())]
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count


def _placed(
    layers: Sequence[Sequence[str]], sizes: Mapping[str, Size], segments: Sequence[Link]
) -> dict[str, Box]:
    before, after = _neighbours(segments)
    left: dict[str, float] = {}
    for layer in layers:
        x = 0.0
        for name in layer:
            left[name] = x
            x += sizes[name].width + NODE_GAP
    for sweep in range(ALIGN_SWEEPS):
        towards = (before, after)[sweep % 2]
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            _align(layer, sizes, left, towards)
    leftmost = min(left.values(), default=0.0)
    boxes: dict[str, Box] = {}
    y = 0.0
    for layer in layers:
        height = max(sizes[name].height for name in layer)
        for name in layer:
            own = sizes[name]
            boxes[name] = Box(left[name] - leftmost, y + (height - own.height) / 2, own.width, own.height)
        y += height + LAYER_GAP
    return boxes


def _align(
    layer: Sequence[str],
    sizes: Mapping[str, Size],
    left: dict[str, float],
    towards: Mapping[str, Sequence[str]],
) -> None:
    """Move the nodes of a layer to the middle of their neighbours, in order and without overlaps."""

    def middle(name: str) -> float:
        return left[name] + sizes[name].width / 2

    wanted = [
        _mean([middle(each) for each in towards.get(name, ())], middle(name)) - sizes[name].width / 2
        for name in layer
    ]
    right = list(wanted)
    for at in range(1, len(layer)):
        right[at] = max(wanted[at], right[at - 1] + sizes[layer[at - 1]].width + NODE_GAP)
    far_left = list(wanted)
    for at in range(len(layer) - 2, -1, -1):
        far_left[at] = min(wanted[at], far_left[at + 1] - sizes[layer[at]].width - NODE_GAP)
    # Both keep the distances, so their mean does as well.
    for name, low, high in zip(layer, far_left, right, strict=True):
        left[name] = (low + high) / 2


def _neighbours(segments: Sequence[Link]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for start, end in segments:
        before.setdefault(end, []).append(start)
        after.setdefault(start, []).append(end)
    return before, after


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default

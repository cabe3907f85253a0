"""Layers from top to bottom, without overlaps."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.client.views.layered_layout import Box, Size, layered

SIZE = Size(100, 40)


def boxes_of(links: list[tuple[str, str]]) -> dict[str, Box]:
    names = dict.fromkeys(name for link in links for name in link)
    return dict(layered(dict.fromkeys(names, SIZE), links).boxes)


def test_edges_lead_down() -> None:
    boxes = boxes_of([("a", "b"), ("b", "c"), ("a", "c")])
    assert boxes["a"].y < boxes["b"].y < boxes["c"].y


def test_a_start_is_next_to_the_node_it_leads_to() -> None:
    boxes = boxes_of([("a", "b"), ("b", "c"), ("c", "d"), ("late", "d")])
    assert boxes["late"].y == boxes["c"].y


def test_edges_over_several_layers_pass_between_the_nodes() -> None:
    links = [("a", "b"), ("b", "c"), ("a", "c")]
    layout = layered(dict.fromkeys("abc", SIZE), links)
    (bend,) = layout.bends["a", "c"]
    middle = layout.boxes["b"]
    assert middle.y <= bend.y <= middle.y + middle.height
    assert not middle.x < bend.x < middle.x + middle.width


def test_crossings_are_removed() -> None:
    boxes = boxes_of([("a", "y"), ("b", "x"), ("c", "z"), ("d", "x")])
    for first, second in combinations([("a", "y"), ("b", "x"), ("c", "z")], 2):
        assert (boxes[first[0]].x < boxes[second[0]].x) == (boxes[first[1]].x < boxes[second[1]].x)


def test_cycles_and_loops_have_a_layout() -> None:
    layout = layered(dict.fromkeys("abc", SIZE), [("a", "b"), ("b", "c"), ("c", "a"), ("b", "b")])
    assert layout.boxes["a"].y < layout.boxes["c"].y
    assert len(layout.bends["c", "a"]) == 1


def test_an_empty_graph_has_no_size() -> None:
    assert layered({}, []).size == Size(0, 0)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40))
def test_nodes_never_overlap(links: list[tuple[int, int]]) -> None:
    named = [(str(start), str(end)) for start, end in links]
    sizes = {str(number): Size(50 + number, 20 + number * 7 % 40) for number in range(13)}
    layout = layered(sizes, named)
    for one, other in combinations(layout.boxes.values(), 2):
        assert (
            one.x + one.width <= other.x
            or other.x + other.width <= one.x
            or one.y + one.height <= other.y
            or other.y + other.height <= one.y
        )
    for box in layout.boxes.values():
        assert 0 <= box.x <= box.x + box.width <= layout.size.width
        assert 0 <= box.y <= box.y + box.height <= layout.size.height


def test_edges_over_many_layers_are_straight() -> None:
    chain = [str(number) for number in range(30)]
    links = [*pairwise(chain), ("0", "29"), ("0", "5")]
    layout = layered(dict.fromkeys(chain, SIZE), links)
    assert layout.bends["0", "29"] == []
    assert len(layout.bends["0", "5"]) == 4

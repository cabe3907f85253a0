"""The drawing of a topology: links, labels, and names of any characters."""

from __future__ import annotations

from xml.etree import ElementTree

from ruslo.client.admin.streams_group_descriptions import Subtopology
from ruslo.client.admin.topology_description import DescribedNode, NodeType
from ruslo.client.views.topology_graph import TopologyGraph, topology_graph
from ruslo.console.topology_svg import topology_svg

COUNT = Subtopology("0", ("words",), (), (), ("app-counts-changelog",))
NODES = {"0": (DescribedNode("read", NodeType.SOURCE, ("words",), ("counts",)),)}


def drawn(graph: TopologyGraph) -> ElementTree.Element:
    return ElementTree.fromstring(str(topology_svg(graph, "app")))


def test_topics_are_links_with_labels() -> None:
    links = drawn(topology_graph([COUNT])).findall("a")
    assert [link.get("href") for link in links] == ["/topics/words", "/topics/app-counts-changelog"]
    assert links[0].get("aria-label") == "source topic words, leads to 0"
    assert [text.text for text in links[1].findall("text")] == ["changelog topic", "counts"]


def test_processors_can_be_focused_and_are_in_the_box_of_their_subtopology() -> None:
    svg = drawn(topology_graph([COUNT], NODES))
    symbols = [group for group in svg.findall("g") if group.get("tabindex") == "0"]
    assert [group.get("aria-label") for group in symbols] == [
        "source read, leads to counts",
        "state store counts, leads to app-counts-changelog",
    ]
    assert [rect.get("class") for rect in svg.findall("rect")] == ["container"]
    assert svg.findtext("text") == "Subtopology 0"
    assert {path.get("class") for path in svg.findall("path")} == {"edge", "edge state"}


def test_title_and_summary_are_those_of_the_element() -> None:
    svg = drawn(topology_graph([COUNT]))
    assert svg.findtext("title") == "Topology of app"
    assert svg.findtext("desc") == (
        "Records flow from top to bottom. 1 × subtopology, 1 × source topic, 1 × changelog topic."
    )
    assert svg.get("aria-labelledby") == "topology-title"


def test_names_are_escaped_and_shortened() -> None:
    name = "<b>&" + "x" * 100 + "\u202e"
    svg = drawn(topology_graph([Subtopology(name, ("words",), (), (), ())]))
    (symbol,) = (group for group in svg.findall("g") if group.get("tabindex") == "0")
    shown = symbol.findall("text")[1].text
    assert shown is not None
    assert shown.startswith("<b>&x")
    assert "…" in shown
    assert len(shown) <= 32
    assert "\u202e" not in ElementTree.tostring(svg, encoding="unicode")


def test_no_inline_styles_or_scripts() -> None:
    assert not [element for element in drawn(topology_graph([COUNT], NODES)).iter() if element.get("style")]


def test_folded_topics_name_the_first_ones() -> None:
    many = Subtopology("0", tuple(f"t{number}" for number in range(300)), (), (), ())
    labels = [each.get("aria-label") or "" for each in drawn(topology_graph([many])).iter()]
    (folded,) = (label for label in labels if label.startswith("300 source topics: t0, t1"))
    assert folded.endswith("and 280 more")

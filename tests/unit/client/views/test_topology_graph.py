"""The topology of a streams group as a graph and as a tree of text."""

from __future__ import annotations

from ruslo.client.admin.streams_group_descriptions import Subtopology
from ruslo.client.admin.topology_description import GLOBAL_STORES, DescribedNode, NodeType
from ruslo.client.views.topology_graph import Edge, Kind, topology_graph
from ruslo.client.views.topology_tree import tree_lines

BY_CUSTOMER = "app-by-customer-repartition"
SPLIT = Subtopology("0", ("orders",), (BY_CUSTOMER,), (), ())
TOTAL = Subtopology("1", ("customers",), (), (BY_CUSTOMER,), ("app-totals-changelog",))
SPLIT_NODES = (
    DescribedNode("read", NodeType.SOURCE, ("orders",), (), ("map",)),
    DescribedNode("map", NodeType.PROCESSOR, successors=("key", "bad")),
    DescribedNode("key", NodeType.SINK, ("by-customer-repartition",)),
    DescribedNode("bad", NodeType.SINK, ("bad-orders",)),
)
TOTAL_NODES = (
    DescribedNode("join", NodeType.SOURCE, ("by-customer-repartition", "customers"), (), ("sum",)),
    DescribedNode("sum", NodeType.PROCESSOR, stores=("totals",)),
)


def test_topics_connect_the_subtopologies() -> None:
    graph = topology_graph([SPLIT, TOTAL])
    assert set(graph.edges) == {
        Edge("topic orders", "subtopology 0"),
        Edge("subtopology 0", f"topic {BY_CUSTOMER}"),
        Edge(f"topic {BY_CUSTOMER}", "subtopology 1"),
        Edge("topic customers", "subtopology 1"),
        Edge("subtopology 1", "topic app-totals-changelog", is_state=True),
    }
    assert graph.nodes[f"topic {BY_CUSTOMER}"].kind is Kind.REPARTITION_TOPIC


def test_processors_are_inside_their_subtopology_and_use_its_internal_topics() -> None:
    graph = topology_graph([SPLIT, TOTAL], {"0": SPLIT_NODES, "1": TOTAL_NODES})
    assert [node.name for node in graph.children("subtopology 0")] == ["read", "map", "key", "bad"]
    assert Edge("subtopology 0 node key", f"topic {BY_CUSTOMER}") in graph.edges
    assert Edge(f"topic {BY_CUSTOMER}", "subtopology 1 node join") in graph.edges
    assert Edge("subtopology 1 store totals", "topic app-totals-changelog", is_state=True) in graph.edges
    assert graph.nodes["topic bad-orders"].kind is Kind.SINK_TOPIC
    assert not [edge for edge in graph.edges if edge.start == "subtopology 0"]


def test_global_stores_have_a_box_of_their_own() -> None:
    nodes = (
        DescribedNode("read", NodeType.SOURCE, ("rates",), (), ("fill",)),
        DescribedNode("fill", NodeType.PROCESSOR, stores=("rates-store",)),
    )
    graph = topology_graph([SPLIT], {GLOBAL_STORES: nodes})
    assert [node.name for node in graph.children("subtopology global stores")] == [
        "read",
        "fill",
        "rates-store",
    ]


def test_large_topologies_lose_their_processors_first() -> None:
    graph = topology_graph([SPLIT, TOTAL], {"0": SPLIT_NODES, "1": TOTAL_NODES}, nodes_max=8)
    assert {node.parent for node in graph.nodes.values()} == {None}
    assert graph.hidden_processors == 7
    assert Edge("subtopology 0", "topic bad-orders") in graph.edges
    assert graph.left_out == 0


def test_then_topics_with_the_same_readers_become_one_node() -> None:
    many = Subtopology("0", tuple(f"orders-{number}" for number in range(500)), ("out",), (), ())
    graph = topology_graph([many, TOTAL])
    folded = next(node for node in graph.nodes.values() if node.members)
    assert folded.name == "500 source topics"
    assert len(folded.members) == 500
    assert Edge(folded.node_id, "subtopology 0") in graph.edges
    assert len(graph.nodes) == 7


def test_then_the_last_nodes_are_left_out() -> None:
    graph = topology_graph([Subtopology(str(number), (f"in-{number}",), (), (), ()) for number in range(150)])
    assert len(graph.nodes) == 200
    assert graph.left_out == 100
    assert all(edge.start in graph.nodes and edge.end in graph.nodes for edge in graph.edges)
    assert tree_lines(graph)[-1] == "and 100 more topics and subtopologies"


def test_text_tree_follows_the_records() -> None:
    assert tree_lines(topology_graph([SPLIT, TOTAL])) == [
        "orders (source topic)",
        "└─ subtopology 0",
        f"   └─ {BY_CUSTOMER} (repartition topic)",
        "      └─ subtopology 1",
        "         └─ app-totals-changelog (changelog topic)",
        "customers (source topic)",
        "└─ subtopology 1 (see above)",
    ]


def test_text_tree_names_the_subtopology_of_each_processor() -> None:
    lines = tree_lines(topology_graph([SPLIT], {"0": SPLIT_NODES}))
    assert lines[:3] == [
        "orders (source topic)",
        "└─ read (source in subtopology 0)",
        "   └─ map (processor in subtopology 0)",
    ]


def test_text_tree_of_a_cycle_ends() -> None:
    loop = Subtopology("0", ("again",), ("again",), (), ())
    assert tree_lines(topology_graph([loop])) == [
        "subtopology 0",
        "└─ again (source topic)",
        "   └─ subtopology 0 (see above)",
    ]


def test_text_tree_is_bounded() -> None:
    wide = [Subtopology(str(number), ("in",), ("out",), (), ()) for number in range(900)]
    assert len(tree_lines(topology_graph(wide, nodes_max=5_000))) <= 1_001


def test_edges_are_bounded() -> None:
    names = [f"p{number}" for number in range(100)]
    tangled = [
        DescribedNode(name, NodeType.PROCESSOR, successors=tuple(names[at + 1 :]))
        for at, name in enumerate(names)
    ]
    graph = topology_graph([SPLIT], {"0": tangled})
    assert graph.hidden_processors == 100
    topics = tuple(f"t{number}" for number in range(90))
    everywhere = [Subtopology(str(number), topics, (), (), ()) for number in range(90)]
    assert len(topology_graph(everywhere).edges) <= 600

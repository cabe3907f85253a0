"""The page of a streams group draws its topology."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators
from ruslo.protocol.messages import streams_group_topology_description_update_request as description
from ruslo.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from ruslo.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from ruslo.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ruslo.testing import EmbeddedBroker
from tests.support.console.console import ConsoleProcess, Visitor, make_topic

GROUP = "billing-app"
MEMBER = "thread-1"
SOURCE, PROCESSOR, SINK = 1, 2, 3
TOPOLOGY = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(
            subtopology_id="0",
            source_topics=["orders"],
            repartition_sink_topics=[f"{GROUP}-by-customer-repartition"],
        ),
        Subtopology(
            subtopology_id="1",
            source_topics=["payments"],
            repartition_source_topics=[TopicInfo(name=f"{GROUP}-by-customer-repartition")],
            state_changelog_topics=[TopicInfo(name=f"{GROUP}-open-invoices-changelog")],
            repartition_sink_topics=[f"{GROUP}-totals-repartition"],
        ),
        Subtopology(
            subtopology_id="2",
            repartition_source_topics=[TopicInfo(name=f"{GROUP}-totals-repartition")],
            state_changelog_topics=[TopicInfo(name=f"{GROUP}-totals-changelog")],
        ),
    ],
)


def _node(
    name: str,
    node_type: int,
    *successors: str,
    topics: list[str] | None = None,
    to: str | None = None,
    stores: list[str] | None = None,
) -> description.TopologyDescriptionNode:
    return description.TopologyDescriptionNode(
        name=name,
        node_type=node_type,
        source_topics=topics or [],
        sink_topic=to,
        stores=stores or [],
        successors=list(successors),
    )


NODES = {
    "0": [
        _node("KSTREAM-SOURCE-0000000000", SOURCE, "KSTREAM-KEY-SELECT-0000000001", topics=["orders"]),
        _node("KSTREAM-KEY-SELECT-0000000001", PROCESSOR, "by-customer-repartition-filter"),
        _node("by-customer-repartition-filter", PROCESSOR, "by-customer-repartition-sink"),
        _node("by-customer-repartition-sink", SINK, to="by-customer-repartition"),
    ],
    "1": [
        _node("orders-by-customer", SOURCE, "join", topics=["by-customer-repartition"]),
        _node("payments", SOURCE, "join", topics=["payments"]),
        _node("join", PROCESSOR, "sum-sink", "unpaid", stores=["open-invoices"]),
        _node("sum-sink", SINK, to="totals-repartition"),
        _node("unpaid", SINK, to="unpaid-orders"),
    ],
    "2": [
        _node("totals-source", SOURCE, "sum", topics=["totals-repartition"]),
        _node("sum", PROCESSOR, "bills", stores=["totals"]),
        _node("bills", SINK, to="bills"),
    ],
}


async def _join(bootstrap: str) -> None:
    async with Cluster(bootstrap) as cluster:
        coordinator = await Coordinators(cluster).find(GROUP)
        joined = await cluster.node(
            coordinator,
            StreamsGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=MEMBER,
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                topology=TOPOLOGY,
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
                process_id="process-1",
                client_tags=[],
            ),
            StreamsGroupHeartbeatResponse,
        )
        assert joined.error_code == 0, joined.error_message
        told = await cluster.node(
            coordinator,
            description.StreamsGroupTopologyDescriptionUpdateRequest(
                group_id=GROUP,
                member_id=MEMBER,
                topology_epoch=0,
                topology_description=description.TopologyDescription(
                    subtopologies=[
                        description.TopologyDescriptionSubtopology(subtopology_id=each, nodes=nodes)
                        for each, nodes in NODES.items()
                    ]
                ),
            ),
            StreamsGroupTopologyDescriptionUpdateResponse,
        )
        assert told.error_code == 0, told.error_message


@pytest.fixture(scope="module", autouse=True)
def member(broker: EmbeddedBroker) -> None:
    make_topic(broker.bootstrap, "orders", 4)
    make_topic(broker.bootstrap, "payments", 4)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(_join(broker.bootstrap))).result()


def test_topology_is_drawn_from_top_to_bottom(visitor: Visitor) -> None:
    page = visitor.open(f"/group?id={GROUP}")
    drawing = page.locator("svg.topology")
    expect(drawing).to_be_visible()
    names = ["orders", "KSTREAM-SOURCE-0000000000", "by-customer", "join", "totals", "sum", "bills"]
    boxes = [drawing.locator(f"text:text-is('{name}')").first.bounding_box() for name in names]
    tops = [box["y"] for box in boxes if box is not None]
    assert len(tops) == len(names)
    assert tops == sorted(tops)
    expect(drawing.locator(".container")).to_have_count(3)


def test_subtopologies_and_members_are_listed(visitor: Visitor) -> None:
    page = visitor.open(f"/group?id={GROUP}")
    listed = page.locator("#streams")
    expect(listed.locator("tr:has-text('open-invoices-changelog')")).to_contain_text("payments")
    expect(listed).to_contain_text("process-1")
    expect(page.locator("#members")).to_have_text("1")
    page.goto("/groups?type=streams")
    expect(page.locator("#list tbody tr")).to_contain_text([GROUP])


def test_nodes_are_reached_with_the_keyboard_and_topics_open(visitor: Visitor) -> None:
    page = visitor.open(f"/group?id={GROUP}")
    page.locator("[aria-label='Drawing of the topology']").focus()
    labels = []
    for _ in range(3):
        page.keyboard.press("Tab")
        labels.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert labels[0].startswith("source topic orders, leads to KSTREAM-SOURCE")
    page.locator("svg.topology a[href='/topics/orders']").press("Enter")
    page.wait_for_url("**/topics/orders")


def test_topology_as_text(visitor: Visitor) -> None:
    page = visitor.open(f"/group?id={GROUP}")
    page.click("summary:has-text('Topology as text')")
    expect(page.locator("details pre")).to_contain_text("└─ join (processor in subtopology 1)")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_themes_colour_the_drawing(
    browser: Browser, console: ConsoleProcess, theme: str, tmp_path: Path
) -> None:
    visitor = Visitor(browser, console.address, color_scheme=theme, viewport={"width": 1400, "height": 900})
    page = visitor.open(f"/group?id={GROUP}")
    drawing = page.locator("svg.topology")
    drawing.screenshot(path=tmp_path / f"{theme}.png")
    fills = drawing.locator("rect").evaluate_all("all => all.map(each => getComputedStyle(each).fill)")
    card = page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
    text = drawing.locator("text").last.evaluate("each => getComputedStyle(each).fill")
    assert card in fills
    assert text != card
    visitor.close()
    assert visitor.complaints == []

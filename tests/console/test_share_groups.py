"""Pages and forms of share groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from ruslo.client.admin.configs import Change, Operation, Resource
from ruslo.client.share.share_consumer import ShareConsumer
from ruslo.model.topics import TopicPartition
from ruslo.testing import EmbeddedBroker
from ruslo.testing.ports import reserve_ports
from tests.support.console.console import ConsoleProcess, Visitor, make_topic, new_producer, run_admin
from tests.support.share.share_node import SHARE_NODE_PROPERTIES

GROUP = "packers/<i>"
RECORDS = 10
PAGE = "/group?id=packers/%3Ci%3E"

Member = ShareConsumer[bytes | None, bytes | None]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    (port,) = reserve_ports(1)
    with EmbeddedBroker({**SHARE_NODE_PROPERTIES, "ruslo.metrics.listener": f"127.0.0.1:{port}"}) as broker:
        make_topic(broker.bootstrap, "parcels", 2)
        producer = new_producer(broker.bootstrap)
        for number in range(RECORDS):
            producer.send("parcels", f"{number}", partition=0)
        producer.flush(10)
        change = {"share.auto.offset.reset": Change(Operation.SET, "earliest")}
        run_admin(broker.bootstrap, lambda admin: admin.configs.alter(Resource.group(GROUP), change))
        tp = TopicPartition("parcels", 0)
        run_admin(broker.bootstrap, lambda admin: admin.group_offsets.alter("readers", {tp: 3}))
        yield broker


@pytest.fixture(scope="module")
def console(broker: EmbeddedBroker) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(broker.bootstrap) as console:
        yield console


@pytest.fixture
def member(broker: EmbeddedBroker) -> Iterator[Member]:
    """A consumer that has accepted two records and holds two."""
    with Member(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": GROUP,
            "client.id": "packer",
            "share.acknowledgement.mode": "explicit",
            "share.acquire.mode": "record_limit",
            "max.poll.records": 2,
        }
    ) as member:
        member.subscribe(["parcels"])
        for record in member.poll(30):
            record.accept()
        held = member.poll(30)
        assert len(held) == 2
        yield member


def test_a_share_group_with_a_member(visitor: Visitor, member: Member) -> None:
    page = visitor.open(PAGE)
    expect(page.locator("#state")).to_have_text("Stable")
    expect(page.locator("#members")).to_have_text("1")
    expect(page.locator("#lag")).to_have_text(str(RECORDS - 2))
    expect(page.locator("#in-flight")).not_to_have_text("–")
    row = page.locator("#shared tbody tr").first
    expect(row).to_contain_text("parcels")
    expect(row.locator("td").nth(6)).to_have_text("2")  # locked
    expect(page.locator("#shared")).to_contain_text("packer")
    expect(page.locator("#shared")).to_contain_text("parcels:0-1")
    for plot in page.locator(".plot").all():
        expect(plot.locator("canvas")).to_be_visible()
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-plot]')].every(each => each.dataset.points > 1)"
    )
    page.click("a:has-text('Reset offsets')")
    expect(page.locator("main")).to_contain_text("The group has 1 member")
    page.click("button:has-text('Preview')")
    page.click("button:has-text('Reset the offsets')")
    expect(page.locator("[role=alert]")).to_contain_text("NON_EMPTY_GROUP")


def test_groups_have_types(visitor: Visitor) -> None:
    page = visitor.open("/groups")
    rows = page.locator("#list tbody tr")
    expect(rows.filter(has_text=GROUP)).to_contain_text("share")
    expect(rows.filter(has_text="readers")).to_contain_text("classic")
    page.select_option("#type", "share")
    expect(rows).to_have_count(1)
    expect(page.locator("#list")).to_contain_text("1 group of type share")
    rows.locator("a").first.click()
    expect(page.locator("h1")).to_have_text(GROUP)


def test_a_topic_lists_the_share_groups_that_read_it(visitor: Visitor) -> None:
    page = visitor.open("/topics/parcels/groups")
    row = page.locator(f"tr:has-text('{GROUP}')")
    expect(row.locator("td").last).to_have_text(str(RECORDS - 2))
    expect(page.locator("main")).not_to_contain_text("not included")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_small_screens_and_themes(browser: Browser, console: ConsoleProcess, scheme: str) -> None:
    visitor = Visitor(browser, console.address, color_scheme=scheme, viewport={"width": 400, "height": 800})
    page = visitor.open(PAGE)
    expect(page.locator("#shared")).to_contain_text("parcels")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visitor.close()
    assert visitor.complaints == []


def test_reset_and_delete(visitor: Visitor) -> None:
    page = visitor.open(PAGE.replace("/group?", "/group/reset?"))
    page.click("button:has-text('Preview')")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("are delivered again, also those that the group has accepted")
    page.click("button:has-text('Reset the offsets')")
    expect(page.locator("[role=status]")).to_contain_text(f"offsets of {GROUP} were reset.")
    expect(page.locator("#lag")).to_have_text(str(RECORDS))
    page.click("a:has-text('Delete')")
    expect(preview).to_contain_text("the state of its records are deleted")
    page.fill("[name=typed]", GROUP)
    page.click("button:has-text('Delete the group')")
    expect(page.locator("[role=status]")).to_have_text(f"Group {GROUP} was deleted.")
    expect(page.locator("#list")).not_to_contain_text(GROUP)

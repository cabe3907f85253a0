"""Many topics and many messages: pages stay small and fast."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.model.topics import TopicPartition
from ruslo.testing import EmbeddedBroker
from tests.support.console.console import ConsoleProcess, Visitor, make_topic, new_producer, run_admin

TOPICS = 2000
GROUPS = 1000
MESSAGES = 100_000
PAGE_MAX_BYTES = 120_000


@pytest.fixture(scope="module")
def visitor(browser: Browser) -> Iterator[Visitor]:
    with EmbeddedBroker() as broker:
        _fill(broker)
        with ConsoleProcess(broker.bootstrap) as console:
            visitor = Visitor(browser, console.address)
            yield visitor
            visitor.close()
    assert visitor.complaints == []


def _fill(broker: EmbeddedBroker) -> None:
    async def create(admin: Admin) -> None:
        topics = [NewTopic(f"topic-{number:04}", partitions=1) for number in range(TOPICS - 1)]
        for start in range(0, len(topics), 250):
            await admin.topics.create(topics[start : start + 250])

    async def commit(admin: Admin) -> None:
        for start in range(0, GROUPS, 100):
            names = [f"group-{number:04}" for number in range(start, start + 100)]
            await asyncio.gather(
                *(
                    admin.group_offsets.alter(
                        name, {TopicPartition("many", 0): int(name[-4:]), TopicPartition("topic-0001", 0): 0}
                    )
                    for name in names
                )
            )

    run_admin(broker.bootstrap, create)
    make_topic(broker.bootstrap, "many", 3)
    run_admin(broker.bootstrap, commit)
    producer = new_producer(broker.bootstrap, linger_ms=20)
    for number in range(MESSAGES):
        producer.send("many", b"message %06d of many" % number, key=b"%d" % (number % 1000))
    producer.flush(60)


def test_two_thousand_topics_are_paged_searched_and_sorted(visitor: Visitor) -> None:
    page = visitor.open("/topics")
    expect(page.locator("#list")).to_contain_text("2\u202f000 topics")
    expect(page.locator("#list tbody tr")).to_have_count(100)
    assert len(page.content()) < PAGE_MAX_BYTES
    page.click("a:has-text('Next')")
    expect(page.locator("#list tbody tr").first).to_contain_text("topic-0099")
    page.goto("/topics?page=999")
    expect(page.locator("#list tbody tr").last).to_contain_text("topic-1998")
    page.fill("#search", "1234")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    page.goto("/topics?sort=size")
    expect(page.locator("#list tbody tr").first).to_contain_text("many")
    page.goto("/")
    expect(page.locator("#health")).to_contain_text("Healthy")
    page.goto("/brokers")
    expect(page.locator("main")).to_contain_text("2\u202f052")


def test_a_topic_with_a_thousand_groups_shows_the_largest_lags(visitor: Visitor) -> None:
    page = visitor.open("/topics/many")
    rows = page.locator("#readers tbody tr")
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text("group-0000")
    page.click("a:has-text('all 1\u202f000 groups')")
    expect(rows).to_have_count(100)
    assert len(page.content()) < PAGE_MAX_BYTES
    page.goto("/topics/many/groups?page=10")
    expect(rows.last).to_contain_text("group-0999")
    page.goto("/groups")
    expect(page.locator("#list")).to_contain_text("1\u202f000 groups")


def test_a_hundred_thousand_messages_are_browsed(visitor: Visitor) -> None:
    page = visitor.open("/topics/many/messages")
    rows = page.locator("#records tr")
    seen: set[str] = set()
    for _ in range(10):
        expect(rows).to_have_count(50)
        assert len(page.content()) < PAGE_MAX_BYTES
        seen |= set(page.locator("#records tr td.value").all_inner_texts())
        page.click("a:has-text('Older')")
    assert len(seen) == 500, "ten pages without a gap or a record twice"


@pytest.mark.parametrize(
    ("query", "first"), [("from=start", "message 00"), ("from=20000&partition=1", "message ")]
)
def test_every_position_loads_fast(visitor: Visitor, query: str, first: str) -> None:
    page = visitor.open(f"/topics/many/messages?{query}")
    expect(page.locator("#records tr").first).to_contain_text(first)


def test_one_message_is_found_among_all(visitor: Visitor) -> None:
    page = visitor.open("/topics/many/messages?value=message 012345 of")
    for _ in range(20):
        if page.locator("#records tr").count():
            break
        page.click("a:has-text('Older')")
    expect(page.locator("#records tr")).to_have_count(1)
    expect(page.locator("#records tr")).to_contain_text("message 012345 of many")


def test_the_size_of_a_download_is_limited(visitor: Visitor) -> None:
    lines = visitor.page.request.get("/topics/many/messages.jsonl?from=start").text().splitlines()
    assert len(lines) == 10_000

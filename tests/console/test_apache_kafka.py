"""The console with Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from ruslo.model.topics import TopicPartition
from tests.support.brokers.kafka import ApacheKafka
from tests.support.console.console import (
    ConsoleProcess,
    Visitor,
    failed_links,
    found_links,
    new_producer,
    run_admin,
)
from tests.support.tools.programs import require_tool


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    require_tool("java")
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def visitor(browser: Browser, kafka: ApacheKafka) -> Iterator[Visitor]:
    with ConsoleProcess(kafka.bootstrap) as console:
        visitor = Visitor(browser, console.address)
        yield visitor
        visitor.close()
    assert visitor.complaints == []


def test_create_a_topic_produce_and_read(visitor: Visitor) -> None:
    page = visitor.open("/topics/new")
    page.fill("[name=name]", "orders")
    page.fill("[name=partitions]", "2")
    page.fill("[name=configs]", "cleanup.policy=compact")
    page.click("button:has-text('Preview')")
    page.click("button:has-text('Create the topic')")
    expect(page.locator("[role=status]")).to_have_text("Topic orders was created.")
    page.goto("/topics/orders/produce")
    page.fill("[name=key]", "k")
    page.fill("[name=value]", '{"total": 7}')
    page.click("button:has-text('Preview')")
    page.click("button:has-text('Produce the record')")
    expect(page.locator("#value")).to_contain_text('"total": 7')
    page.goto("/topics/orders/messages")
    expect(page.locator("#records tr")).to_have_count(1)
    page.goto("/topics/orders/config?set=1")
    expect(page.locator("#list tbody")).to_contain_text("cleanup.policy")
    expect(page.locator("#list tbody")).to_contain_text("override")


def test_every_page_and_an_offset_reset(visitor: Visitor, kafka: ApacheKafka) -> None:
    producer = new_producer(kafka.bootstrap)
    for number in range(20):
        producer.send("payments", f"{number}", partition=0)
    producer.flush(20)
    tp = TopicPartition("payments", 0)
    run_admin(kafka.bootstrap, lambda admin: admin.group_offsets.alter("billing", {tp: 5}))
    run_admin(kafka.bootstrap, lambda admin: admin.share_group_offsets.alter("packers", {tp: 8}))
    pages = {
        "/": "Healthy",
        "/topics": "payments",
        "/topics?internal=1": "__consumer_offsets",
        "/topics/payments": "billing",
        "/topics/payments/groups": "billing",
        "/topics/payments/config": "retention.ms",
        "/topics/payments/messages": "19",
        "/groups": "billing",
        "/group?id=billing": "The group has no members",
        "/groups?type=share": "packers",
        "/group?id=packers": "only the metrics of Ruslo's brokers tell it",
        "/brokers": "KRaft quorum",
        "/brokers/1": "payments",
        "/brokers/1/config": "log.retention.hours",
        "/transactions?hanging=1": "No transaction hangs",
        "/pipelines": "Pipelines",
    }
    for path, text in pages.items():
        expect(visitor.open(path).locator("main")).to_contain_text(text)
    # Pipelines are those of this machine, whichever cluster they use.
    assert failed_links(visitor, found_links(visitor, pages.keys() - {"/pipelines"})) == {}
    page = visitor.open("/group?id=billing")
    expect(page.locator("#lag")).to_have_text("15")
    page.click("a:has-text('Reset offsets')")
    page.click("button:has-text('Preview')")
    expect(page.locator("#preview")).to_contain_text("5 records")
    page.click("button:has-text('Reset the offsets')")
    expect(page.locator("#lag")).to_have_text("20")

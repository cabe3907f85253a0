"""Every page: live figures, links, keyboard, themes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from ruslo.client.librdkafka.consumer import Consumer
from ruslo.client.librdkafka.producer import Producer
from ruslo.client.settings.setting import ConfigValue
from ruslo.model.topics import TopicPartition
from ruslo.runs.dead_letters import PARTITION, REASON, TOPIC
from ruslo.runs.folder import RunFolder
from ruslo.testing import EmbeddedBroker
from ruslo.testing.ports import reserve_ports
from tests.support.console.console import (
    ConsoleProcess,
    Visitor,
    failed_links,
    found_links,
    make_topic,
    new_producer,
    run_admin,
)

PAGES = {
    "/": "Healthy",
    "/topics": "orders",
    "/topics/orders": "Log end offset",
    "/topics/orders/messages": "order-",
    "/topics/orders/config": "retention.ms",
    "/topics/orders/groups": "billing",
    "/groups": "billing",
    "/group?id=billing": "Committed",
    "/brokers": "KRaft quorum",
    "/brokers/1": "orders",
    "/brokers/1/config": "log.retention.ms",
    "/transactions": "No transaction is open",
    "/transactions?hanging=1": "No transaction hangs",
    "/pipelines": "Pipelines",
    "/topics/new": "Preview",
    "/security": "No user has a SCRAM password",
    "/security/users/password": "You enter the password in the next step",
    "/security/acls": "This cluster has no authorizer",
    "/security/explain": "This cluster has no authorizer",
    "/security/quotas": "No client has a quota",
    "/security/quotas/set": "Preview",
}


@pytest.fixture(scope="module", autouse=True)
def traffic(broker: EmbeddedBroker) -> Iterator[None]:
    """A producer and a consumer that run all the time."""
    over = threading.Event()

    def write_and_read() -> None:
        common: dict[str, ConfigValue] = {"bootstrap.servers": broker.bootstrap, "log_level": 2}
        producer = Producer(common)
        consumer = Consumer(
            {**common, "group.id": "billing", "client.id": "till", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        number = 0
        while not over.is_set():
            for _ in range(20):
                number += 1
                producer.send("orders", json.dumps({"order": number}), key=f"order-{number}")
            producer.flush(10)
            if consumer.poll(0.05):
                consumer.commit()
            time.sleep(0.05)
        consumer.close()

    make_topic(broker.bootstrap, "orders", 3, retention_ms="86400000")
    thread = threading.Thread(target=write_and_read)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.parametrize("path", PAGES)
def test_every_page(visitor: Visitor, path: str) -> None:
    page = visitor.open(path)
    expect(page.locator("main")).to_contain_text(PAGES[path])
    assert page.title().endswith("· Ruslo")


def test_plots_and_figures_update(visitor: Visitor) -> None:
    page = visitor.open("/")
    expect(page.locator("#plot-records canvas")).to_be_visible()
    expect(page.locator("#records-rate")).not_to_have_text("–/s")
    points = page.locator("#plot-records").get_attribute("data-points")
    page.wait_for_function(
        "before => document.getElementById('plot-records').dataset.points > Math.max(before, 2)",
        arg=int(points or 0),
    )
    expect(page.locator("#busiest")).to_contain_text("orders")


def test_the_offsets_of_a_topic_update(visitor: Visitor) -> None:
    page = visitor.open("/topics/orders")
    before = page.locator("#partitions").inner_text()
    page.wait_for_function("text => document.getElementById('partitions').innerText !== text", arg=before)


def test_a_topic_shows_its_groups_and_their_lag(visitor: Visitor, broker: EmbeddedBroker) -> None:
    make_topic(broker.bootstrap, "read", 2)
    producer = new_producer(broker.bootstrap)
    for number in range(10):
        producer.send("read", f"{number}", partition=number % 2)
    producer.flush(10)
    page = visitor.open("/topics/read")
    readers = page.locator("#readers")
    expect(readers).to_contain_text("No group reads this topic.")
    tp = TopicPartition("read", 0)
    run_admin(broker.bootstrap, lambda admin: admin.group_offsets.alter("late/<i>", {tp: 2}))
    row = readers.locator("tr:has-text('late/<i>')")
    expect(row).to_contain_text("Empty")
    expect(row.locator("td").last).to_have_text("3")
    row.locator("a").click()
    expect(page.locator("h1")).to_have_text("late/<i>")
    page.goto("/topics/orders/groups")
    expect(readers.locator("tr:has-text('billing')")).to_contain_text("Stable")


def test_a_broker_shows_its_replicas(visitor: Visitor) -> None:
    page = visitor.open("/brokers")
    page.click("a:has-text('Broker 1')")
    page.fill("#search", "orders")
    expect(page.locator("#list tbody tr")).to_have_count(3)
    expect(page.locator("#list tbody tr").first).to_contain_text("leader")
    page.select_option("#only", "out-of-sync")
    expect(page.locator("#list")).to_contain_text("No replica matches.")
    page.goto("/brokers/7")
    expect(page.locator("[role=alert]")).to_contain_text("Broker 7 does not exist")
    page.click("main a:has-text('Brokers')")
    page.wait_for_url("**/brokers")


def test_every_link_works(visitor: Visitor) -> None:
    # Pipelines are those of this machine, whichever cluster they use.
    links = found_links(visitor, PAGES.keys() - {"/pipelines"})
    assert {"/topics/orders", "/group?id=billing", "/brokers/1", "/topics/orders/groups"} <= links
    assert failed_links(visitor, links) == {}


def test_lag_is_shown_in_records_and_time_with_its_history(visitor: Visitor) -> None:
    page = visitor.open("/group?id=billing")
    expect(page.locator("#state")).to_have_text("Stable")
    expect(page.locator("#lag")).not_to_have_text("–")
    expect(page.locator("#lag-seconds")).not_to_have_text("–")
    expect(page.locator("main")).to_contain_text("till")
    page.wait_for_function("() => document.querySelector('[data-plot]').dataset.points > 1")


def test_an_unreachable_cluster_is_shown_and_recovers(browser: Browser) -> None:
    with EmbeddedBroker() as own, ConsoleProcess(own.bootstrap) as console:
        visitor = Visitor(browser, console.address)
        page = visitor.open("/")
        expect(page.locator("#health")).to_contain_text("Healthy")
        own.stop()
        expect(page.locator("#health")).to_contain_text("is unreachable")
        assert page.goto("/topics") is not None
        expect(page.locator("main")).to_contain_text("connection refused")
        own.start()
        page.goto("/")
        expect(page.locator("#health")).to_contain_text("Healthy")
        visitor.close()


def test_produce_latency_comes_from_broker_metrics(browser: Browser) -> None:
    (port,) = reserve_ports(1)
    metrics = {"ruslo.metrics.listener": f"127.0.0.1:{port}"}
    with EmbeddedBroker(metrics) as own, ConsoleProcess(own.bootstrap) as console:
        visitor = Visitor(browser, console.address)
        producer = new_producer(own.bootstrap)
        page = visitor.open("/")
        for _ in range(40):
            producer.send("timed", b"v")
            producer.flush(10)
            page.wait_for_timeout(500)
            page.reload()
            if page.locator("#produce-time").count():
                break
        expect(page.locator("#figures")).to_contain_text("Produce latency")
        visitor.close()


def test_keyboard_reaches_every_control(visitor: Visitor) -> None:
    page = visitor.open("/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("ord")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    page.keyboard.press("Tab")
    for _ in range(8):
        if page.evaluate("document.activeElement.textContent") == "orders":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/topics",
        "/topics/orders",
        "/topics/orders/messages",
        "/topics/orders/config",
        "/groups",
        "/group?id=billing",
        "/brokers",
        "/brokers/1",
        "/transactions",
    ],
)
def test_a_phone_shows_pages_without_scrolling_sideways(
    browser: Browser, console: ConsoleProcess, path: str
) -> None:
    phone = Visitor(
        browser, console.address, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True
    )
    page = phone.open(path)
    wider_by = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    phone.close()
    assert wider_by <= 0


def test_light_and_dark_follow_the_system_and_the_button(browser: Browser, console: ConsoleProcess) -> None:
    backgrounds = {}
    for scheme in ("light", "dark"):
        visitor = Visitor(browser, console.address, color_scheme=scheme)
        page = visitor.open("/topics")
        backgrounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("[data-theme-toggle]").click()
        page.reload()
        backgrounds[f"{scheme}, toggled"] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        visitor.close()
    assert backgrounds["light"] != backgrounds["dark"]
    assert backgrounds["light, toggled"] == backgrounds["dark"]
    assert backgrounds["dark, toggled"] == backgrounds["light"]


def test_pages_work_without_scripts(browser: Browser, console: ConsoleProcess) -> None:
    visitor = Visitor(browser, console.address, java_script_enabled=False)
    page = visitor.open("/topics")
    page.fill("#search", "no-such")
    page.click("button:has-text('Search')")
    expect(page.locator("#list")).to_contain_text("No topic name matches")
    page.goto("/topics/new")
    page.fill("[name=name]", "by-hand")
    page.click("button:has-text('Preview')")
    page.click("button:has-text('Create the topic')")
    expect(page.locator("[role=status]")).to_have_text("Topic by-hand was created.")
    visitor.close()


def test_a_pipeline_is_shown_and_its_dead_letters_are_replayed(
    visitor: Visitor, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    producer = new_producer(broker.bootstrap)
    for topic in ("source", "source.dead"):
        producer.send(topic, b"first", key=b"k", headers=() if topic == "source" else _about("source", 0))
    producer.flush(10)
    query = {"sink": "totals", "state": "running", "records_in": 100, "in_per_second": 50.0, "batch_ms": 120}
    status = {
        "pipeline": "sums",
        "state": "running",
        "dead_letter_topic": "source.dead",
        "dead_letters": 1,
        "bootstrap": f"127.0.0.1:1,{broker.bootstrap}",
        "source_topics": ["source"],
    }
    with RunFolder(tmp_path / "run") as run:
        run.write_status(status | {"queries": [query], "updated_at": time.time()})
        page = visitor.open("/pipelines")
        expect(page.locator("article")).to_contain_text("totals")
        run.write_status(status | {"queries": [query | {"records_in": 777}], "updated_at": time.time()})
        expect(page.locator("article")).to_contain_text("777")
        expect(page.locator("article a:text-is('source')")).to_have_attribute("href", "/topics/source")
        run.write_status(status | {"bootstrap": "10.0.0.1:9092", "queries": [query]})
        expect(page.locator("article")).to_contain_text("on another cluster")
        expect(page.locator("article a")).to_have_text(["Stop"])
        run.write_status(status | {"queries": [query]})
        page.click("a:has-text('Stop')")
        page.click("button:has-text('Stop the pipeline')")
        expect(page.locator("[role=status]")).to_contain_text("sums stops after its current batch")
        assert run.stop_requested
        page.click("a:has-text('replay')")
        expect(page.locator("#preview")).to_contain_text("not a number")
        page.click("button:has-text('Replay')")
        expect(page.locator("[role=status]")).to_contain_text("1 dead letter was replayed. It was deleted")
    page.goto("/topics/source/messages")
    expect(page.locator("#records tr")).to_have_count(2)
    page.click("#records tr:first-child a")
    expect(page.locator("#value")).to_have_text("first")
    expect(page.locator("main")).to_contain_text("Headers 0")
    page.goto("/dead-letters/replay?topic=source.dead")
    expect(page.locator("main")).to_contain_text("has no dead letters")


def _about(topic: str, partition: int) -> list[tuple[str, bytes | None]]:
    return [(REASON, b"not a number"), (TOPIC, topic.encode()), (PARTITION, str(partition).encode())]

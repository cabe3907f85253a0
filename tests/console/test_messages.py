"""The message browser: positions, filters, formats, hostile records, live tail, downloads."""

from __future__ import annotations

import io
import json
import time

import fastavro
import pytest
from playwright.sync_api import expect

from ruslo.client.librdkafka.producer import Producer
from ruslo.testing import EmbeddedBroker
from tests.support.console.console import Visitor, make_topic, new_producer

MEGABYTE = 1_000_000
HOSTILE = [
    "<script>document.title='taken'</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg/onload=alert(2)>'",
    "{{ 7 * 7 }} {% raw %} ${7*7}",
    "</td></tr></table><h1>broken out</h1>",
    "</textarea><script>alert(3)</script>",
    "abc\u202egpj.exe\u2066 \u2069",
    "\x00\x01\x1b[31mred",
    "event: rows\ndata: {}\n\n",
    "javascript:alert(4)",
]
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}


def producer_of(broker: EmbeddedBroker, topic: str, partitions: int = 1, **configs: str) -> Producer:
    """Create the topic and produce to it."""
    make_topic(broker.bootstrap, topic, partitions, **configs)
    return new_producer(broker.bootstrap, max_request_size=5_000_000)


def test_positions_partitions_and_filters(visitor: Visitor, broker: EmbeddedBroker) -> None:
    producer = producer_of(broker, "places", partitions=2)
    now_ms = round(time.time() * 1000)
    for number in range(120):
        producer.send(
            "places", f"value-{number}", key=f"key-{number % 7}", partition=number % 2,
            timestamp_ms=now_ms - (120 - number) * 60_000,
        )  # fmt: skip
    producer.flush(10)
    page = visitor.open("/topics/places/messages")
    rows = page.locator("#records tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("value-119")
    page.click("a:has-text('Older')")
    expect(rows.first).to_contain_text("value-69")
    page.click("a:has-text('Older')")
    expect(rows).to_have_count(20)
    expect(rows.last).to_contain_text("value-0")
    expect(page.locator("a:has-text('Older')")).to_have_count(0)
    page.click("a:has-text('First page')")
    expect(rows.first).to_contain_text("value-119")

    for position, first in (
        ("start", "value-0"),
        ("59", "value-118"),
        ("-3", "value-114"),
        ("10m", "value-111"),
    ):
        page.fill("[name=from]", position)
        page.click("button:has-text('Show')")
        expect(page.locator("#records tr:first-child")).to_contain_text(first)
    page.fill("[name=from]", "start")
    page.click("button:has-text('Show')")
    page.click("a:has-text('Newer')")
    expect(rows.first).to_contain_text("value-50")

    page.goto("/topics/places/messages?partition=1&key=key-3")
    assert {text.split("\t")[0].strip() for text in rows.all_inner_texts()} == {"1"}
    assert all("key-3" in text for text in rows.all_inner_texts())
    page.goto("/topics/places/messages?value=value-77")
    expect(rows).to_have_count(1)
    page.goto("/topics/places/messages?from=nonsense")
    expect(page.locator("[role=alert]")).to_contain_text("is not a position")
    page.goto("/topics/places/messages?partition=9")
    expect(page.locator("[role=alert]")).to_contain_text("has no partition 9")


def test_hostile_records_are_harmless(visitor: Visitor, broker: EmbeddedBroker) -> None:
    producer = producer_of(broker, "hostile", max_message_bytes="5000000")
    for text in HOSTILE:
        producer.send("hostile", text, key=text, headers=[(text, text.encode())])
    producer.send("hostile", "<b>" * (MEGABYTE // 3), key="<i>" * 100_000)
    producer.send("hostile", bytes(range(256)) * (MEGABYTE // 256), key="binary")
    producer.send("hostile", "[" * MEGABYTE, key="deep")
    producer.send("hostile", None, key="tombstone")
    producer.flush(30)
    page = visitor.open("/topics/hostile/messages?from=start")
    expect(page.locator("#records tr")).to_have_count(len(HOSTILE) + 4)
    assert len(page.content()) < 100_000, "a megabyte is one line of the table"
    assert "gpj.exe" in page.content()
    assert "\u202e" not in page.content(), "the text direction is not reversed"
    expect(page.locator("h1")).to_have_count(1)
    for offset in range(len(HOSTILE) + 4):
        for kind in ("auto", "json", "text", "hex", "avro"):
            response = page.request.get(f"/topics/hostile/messages/0/{offset}?format={kind}")
            assert response.status == 200
            assert len(response.body()) < 2_000_000
        page.goto(f"/topics/hostile/messages/0/{offset}")
        assert page.title() == f"hostile 0@{offset} · Ruslo"
        expect(page.locator("h1")).to_have_count(1)
    page.goto("/topics/hostile/messages/0/0")
    expect(page.locator("#value")).to_have_text(HOSTILE[0])
    page.goto(f"/topics/hostile/messages/0/{len(HOSTILE)}")
    expect(page.locator("main")).to_contain_text("Only the start is shown")
    whole = page.request.get(f"/topics/hostile/messages/0/{len(HOSTILE)}/download")
    assert (len(whole.body()), whole.headers["content-type"]) == (
        MEGABYTE // 3 * 3,
        "application/octet-stream",
    )
    lines = page.request.get("/topics/hostile/messages.jsonl?from=start").text().splitlines()
    assert [json.loads(line)["value"] for line in lines[: len(HOSTILE)]] == HOSTILE


def test_hostile_records_in_a_live_tail(visitor: Visitor, broker: EmbeddedBroker) -> None:
    producer = producer_of(broker, "arriving")
    page = visitor.open("/topics/arriving/messages")
    expect(page.locator("#no-records")).to_be_visible()
    page.click("button:has-text('Follow live')")
    expect(page.locator("#tail-state")).to_contain_text("Following")
    for _ in range(40):
        # The tail skips records that were written before the server read the end offset.
        producer.send("arriving", "ping")
        producer.flush(10)
        if page.locator("#records tr").count():
            break
        page.wait_for_timeout(250)
    for text in HOSTILE:
        producer.send("arriving", text, key=text)
    producer.flush(10)
    expect(page.locator("#records tr").first).to_contain_text("javascript:alert(4)")
    expect(page.locator("#records")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.title() == "Messages of arriving · Ruslo"
    page.click("button:has-text('Stop')")
    expect(page.locator("#tail-state")).to_contain_text("Stopped after")


def test_a_live_tail_skips_records_of_a_flood(visitor: Visitor, broker: EmbeddedBroker) -> None:
    producer = producer_of(broker, "flood", partitions=3)
    page = visitor.open("/topics/flood/messages")
    page.click("button:has-text('Follow live')")
    state = page.locator("#tail-state")
    for _ in range(40):
        for number in range(3000):
            producer.send("flood", f"{number}")
        producer.flush(10)
        if "skipped" in state.inner_text():
            break
        page.wait_for_timeout(250)
    expect(state).to_contain_text("skipped")
    assert page.locator("#records tr").count() <= 500


def test_avro_with_a_given_schema(visitor: Visitor, broker: EmbeddedBroker) -> None:
    producer = producer_of(broker, "binary")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), {"id": 7, "who": "grace"})
    producer.send("binary", b"\x00\x00\x00\x00\x01" + out.getvalue())
    producer.flush(10)
    page = visitor.open("/topics/binary/messages/0/0?format=avro")
    expect(page.locator("main")).to_contain_text("Enter the topic's Avro schema")
    page.fill("[name=schema]", "{}")
    page.click("button:has-text('Use the schema')")
    expect(page.locator("[role=status]")).to_contain_text("not a valid Avro schema")
    page.click("summary")
    page.fill("[name=schema]", json.dumps(SCHEMA))
    page.click("button:has-text('Use the schema')")
    expect(page.locator("#value")).to_contain_text('"who": "grace"')


@pytest.mark.parametrize(
    "path", ["/topics/nothing/messages", "/topics/empty-one/messages/0/5", "/topics/empty-one/messages/3/0"]
)
def test_missing_records_and_topics(visitor: Visitor, broker: EmbeddedBroker, path: str) -> None:
    make_topic(broker.bootstrap, "empty-one")
    response = visitor.page.goto(path)
    assert response is not None
    assert response.status == 404
    expect(visitor.page.locator("[role=alert]")).to_be_visible()

"""Every form: its preview, its effect and its errors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Browser, Page, expect

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Resource
from ruslo.client.wire.coordinators import value_of
from ruslo.model.topics import TopicPartition
from ruslo.testing import EmbeddedBroker
from tests.support.console.console import ConsoleProcess, Visitor, make_topic, new_producer, run_admin
from tests.support.txns.hanging import UNVERIFIED, hang
from tests.support.txns.transactional_clients import new_transactional


def topic_names(broker: EmbeddedBroker) -> list[str]:
    async def names(admin: Admin) -> list[str]:
        return [topic.name for topic in await admin.topics.list()]

    return run_admin(broker.bootstrap, names)


def filled_topic(broker: EmbeddedBroker, name: str, records: int, partitions: int = 1) -> None:
    make_topic(broker.bootstrap, name, partitions)
    producer = new_producer(broker.bootstrap)
    for number in range(records):
        producer.send(name, f"value {number}", partition=number % partitions)
    producer.flush(10)


def preview(page: Page) -> str:
    """The text of the new preview, not of an earlier one."""
    page.evaluate("document.getElementById('preview').replaceChildren()")
    page.click("button:has-text('Preview')")
    expect(page.locator("#preview h2, #preview [role=alert]")).to_be_visible()
    return page.locator("#preview").inner_text()


def test_create_a_topic(visitor: Visitor, broker: EmbeddedBroker) -> None:
    page = visitor.open("/topics/new")
    page.fill("[name=name]", "made-here")
    page.fill("[name=partitions]", "4")
    page.fill("[name=configs]", "retention.ms=1000\ncleanup.policy=compact")
    shown = preview(page)
    assert "Create topic made-here" in shown
    assert "compact" in shown
    assert "made-here" not in topic_names(broker), "a preview changes nothing"
    page.click("button:has-text('Create the topic')")
    page.wait_for_url("**/topics/made-here?*")
    expect(page.locator("[role=status]")).to_have_text("Topic made-here was created.")
    created = run_admin(broker.bootstrap, lambda admin: admin.topics.describe("made-here"))
    assert len(created.partitions) == 4
    page.reload()
    expect(page.locator("[role=status]")).to_have_count(0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "no spaces"}, "characters other than"),
        ({"name": "ok", "partitions": "many"}, "'many' is not a whole number"),
        ({"name": "ok", "partitions": "0"}, "out of range"),
        ({"name": "ok", "replicas": "3"}, "INVALID_REPLICATION_FACTOR"),
        ({"name": "ok", "configs": "retention.ms=soon"}, "INVALID_CONFIG"),
        ({"name": "ok", "configs": "nonsense"}, "is not in the form name=value"),
    ],
)
def test_form_errors_are_shown_in_the_form(visitor: Visitor, fields: dict[str, str], message: str) -> None:
    page = visitor.open("/topics/new")
    for name, value in fields.items():
        page.fill(f"[name={name}]", value)
    assert message in preview(page)
    expect(page.locator("[name=name]")).to_have_value(fields["name"])


def test_add_partitions_delete_records_and_delete_the_topic(visitor: Visitor, broker: EmbeddedBroker) -> None:
    filled_topic(broker, "grows", 10)
    page = visitor.open("/topics/grows/partitions")
    page.fill("[name=total]", "1")
    assert "out of range" in preview(page)
    page.fill("[name=total]", "3")
    assert "Keys map to other partitions" in preview(page)
    page.click("button:has-text('Add 2 partitions')")
    expect(page.locator("[role=status]")).to_have_text("grows has 3 partitions now.")

    page.goto("/topics/grows/empty")
    page.fill("[name=typed]", "wrong")
    page.click("button:has-text('Delete all records')")
    expect(page.locator("[role=alert]")).to_contain_text("type 'grows' to confirm")
    page.fill("[name=typed]", "grows")
    page.click("button:has-text('Delete all records')")
    expect(page.locator("[role=status]")).to_have_text("All records of grows were deleted.")
    ranges = run_admin(broker.bootstrap, lambda admin: admin.offsets.ranges([TopicPartition("grows", 0)]))
    assert ranges == {TopicPartition("grows", 0): (10, 10)}

    page.goto("/topics/grows/delete")
    page.fill("[name=typed]", "grows")
    page.click("button:has-text('Delete the topic')")
    expect(page.locator("[role=status]")).to_have_text("Topic grows was deleted.")
    assert "grows" not in topic_names(broker)


def test_change_a_config_and_remove_the_override(visitor: Visitor, broker: EmbeddedBroker) -> None:
    make_topic(broker.bootstrap, "tuned")

    def segment() -> tuple[str | None, str]:
        entries = run_admin(
            broker.bootstrap, lambda admin: admin.configs.describe(Resource.topic("tuned"), ["segment.bytes"])
        )
        return entries[0].value, entries[0].source.name

    page = visitor.open("/topics/tuned/config")
    page.fill("#search", "segment.bytes")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    page.click("tr:has(td:text-is('segment.bytes')) a")
    page.fill("[name=value]", "later")
    assert "INVALID_CONFIG" in preview(page)
    page.fill("[name=value]", "2000000")
    assert "New\n2000000" in preview(page)
    assert segment()[1] != "TOPIC"
    page.click("button:has-text('Change the config')")
    expect(page.locator("[role=status]")).to_contain_text("segment.bytes of topic tuned was set")
    assert segment() == ("2000000", "TOPIC")
    row = page.locator("tr:has(td:text-is('segment.bytes'))")
    expect(row).to_contain_text("override")
    expect(row).to_contain_text("1073741824")
    row.locator("a").click()
    page.check("[name=inherit]")
    assert "inherited" in preview(page)
    page.click("button:has-text('Change the config')")
    expect(page.locator("[role=status]")).to_contain_text("was reset to the inherited value")
    assert segment()[1] != "TOPIC"


def test_change_a_broker_config(visitor: Visitor, broker: EmbeddedBroker) -> None:
    page = visitor.open("/brokers/1/config?name=log.cleaner.threads")
    page.fill("[name=value]", "2")
    preview(page)
    page.click("button:has-text('Change the config')")
    expect(page.locator("[role=status]")).to_contain_text("log.cleaner.threads of broker 1 was set")
    entries = run_admin(
        broker.bootstrap, lambda admin: admin.configs.describe(Resource.broker(1), ["log.cleaner.threads"])
    )
    assert entries[0].value == "2"


def test_produce_a_record(visitor: Visitor, broker: EmbeddedBroker) -> None:
    make_topic(broker.bootstrap, "written", 2)
    page = visitor.open("/topics/written/produce")
    page.fill("[name=key]", "k\u200d1")
    page.select_option("[name=format]", "json")
    page.fill("[name=value]", "{ not json")
    assert "this is not valid JSON" in preview(page)
    page.fill("[name=value]", '{"a":\n "\u202eline"}')
    page.fill("[name=headers]", "trace=abc\nempty=")
    page.select_option("[name=partition]", "1")
    preview(page)
    page.click("button:has-text('Produce the record')")
    expect(page.locator("[role=status]")).to_have_text("The record was stored in partition 1 at offset 0.")
    stored = page.request.get("/topics/written/messages/1/0/download")
    assert stored.body().decode() == '{"a":\n "\u202eline"}', "no character is changed"
    assert stored.headers["content-disposition"].startswith("attachment")
    expect(page.locator("main")).to_contain_text("trace")


def test_reset_and_delete_a_group(visitor: Visitor, broker: EmbeddedBroker) -> None:
    filled_topic(broker, "replayed", 20, 2)
    tps = {TopicPartition("replayed", number): 5 for number in (0, 1)}
    run_admin(broker.bootstrap, lambda admin: admin.group_offsets.alter("slow/ <b>", tps))
    page = visitor.open("/groups")
    page.click("a:has-text('slow/')")
    expect(page.locator("#lag")).to_have_text("10")
    page.click("a:has-text('Reset offsets')")
    page.check("[value=shift]")
    page.fill("[name=shift]", "-2")
    shown = preview(page)
    assert "Reset 2 offsets of slow/ <b>" in shown
    assert "4 records" in shown
    page.check("[value=where]")
    page.fill("[name=where]", "nonsense")
    assert "is not a position" in preview(page)
    page.fill("[name=where]", "7")
    page.fill("[name=topic]", "replayed")
    page.fill("[name=partition]", "1")
    assert "Reset 1 offset" in preview(page)
    page.click("button:has-text('Reset the offsets')")
    expect(page.locator("[role=status]")).to_contain_text("1 offset of slow/ <b> was reset")
    committed = run_admin(broker.bootstrap, lambda admin: admin.group_offsets.fetch("slow/ <b>"))
    assert [each.offset for _, each in sorted(committed.items())] == [5, 7]
    page.click("a:has-text('Delete')")
    page.fill("[name=typed]", "slow/ <b>")
    page.click("button:has-text('Delete the group')")
    expect(page.locator("[role=status]")).to_contain_text("was deleted")


def test_abort_an_open_transaction(visitor: Visitor, broker: EmbeddedBroker) -> None:
    make_topic(broker.bootstrap, "paid")
    producer = new_transactional(broker.bootstrap, "till-1")
    producer.begin_transaction()
    producer.produce("paid", b"v")
    producer.flush(10)
    page = visitor.open("/transactions")
    row = page.locator("tr:has-text('till-1')")
    expect(row).to_contain_text("Ongoing")
    row.locator("a:has-text('abort')").click()
    expect(page.locator("#preview")).to_contain_text("paid:0")
    page.click("button:has-text('Abort the transaction')")
    expect(page.locator("[role=status]")).to_contain_text("The transaction of till-1 was aborted")
    described = run_admin(broker.bootstrap, lambda admin: admin.transactions.describe(["till-1"]))
    assert not value_of(described["till-1"]).is_open
    page.goto("/transactions/abort?id=till-1")
    expect(page.locator("[role=alert]")).to_contain_text("has no open transaction")


def test_abort_a_hanging_transaction(browser: Browser) -> None:
    with EmbeddedBroker(UNVERIFIED) as broker, ConsoleProcess(broker.bootstrap) as console:
        filled_topic(broker, "stuck", 3)
        with ThreadPoolExecutor(1) as thread:  # It has its own event loop.
            thread.submit(hang, broker.bootstrap, "stuck").result()
        visitor = Visitor(browser, console.address)
        page = visitor.open("/transactions")
        page.check("[name=hanging]")
        page.click("button:has-text('Show')")
        page.click("a:has-text('abort')")
        expect(page.locator("#preview")).to_contain_text("Abort the hanging transaction in stuck-0")
        page.click("button:has-text('Write the abort marker')")
        expect(page.locator("[role=status]")).to_contain_text("at offset 3 of stuck-0 was aborted")
        expect(page.locator("main")).to_contain_text("No transaction hangs")
        visitor.close()

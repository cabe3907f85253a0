"""Users of the cluster log in to the console, and their ACLs decide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from ruslo.config.properties import format_properties
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import USERS, Secured, add_scram_users, secured_node
from tests.support.console.console import ConsoleProcess, Visitor, make_topic, run_admin


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured = secured_node(RusloNode, tmp_path_factory.mktemp("secured"))
    with secured.node:
        plain = secured.addresses["PLAINTEXT"]
        for topic in ("orders", "salaries"):
            make_topic(plain, topic)
        read = [
            Acl(
                ResourceType.TOPIC,
                "orders",
                PatternType.LITERAL,
                "User:alice",
                "*",
                operation,
                Permission.ALLOW,
            )
            for operation in (Operation.READ, Operation.DESCRIBE)
        ]
        run_admin(plain, lambda admin: admin.acls.create(read))
        run_admin(plain, lambda _: add_scram_users(plain, ("admin", "alice")))
        yield secured


@pytest.fixture(scope="module")
def console(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    path = tmp_path_factory.mktemp("console") / "client.properties"
    settings = secured.client("SASL_SSL", "alice")
    del settings["sasl.jaas.config"]  # the console itself has no user
    bootstrap = settings.pop("bootstrap.servers")
    path.write_text(format_properties(settings))
    with ConsoleProcess(bootstrap, "--command-config", str(path), "--login", "sasl") as console:
        yield console


def log_in(browser: Browser, console: ConsoleProcess, user: str, password: str | None = None) -> Visitor:
    visitor = Visitor(browser, console.address)
    page = visitor.open("/topics?internal=1")
    page.get_by_label("User", exact=True).fill(user)
    page.get_by_label("Password").fill(password or USERS[user])
    page.get_by_role("button", name="Log in").click()
    return visitor


def test_a_user_sees_and_does_what_the_acls_allow(browser: Browser, console: ConsoleProcess) -> None:
    alice = log_in(browser, console, "alice")
    page = alice.page
    expect(page.locator("table")).to_contain_text("orders")
    expect(page.locator("table")).not_to_contain_text("salaries")
    page = alice.open("/")
    expect(page.locator("main")).to_contain_text("Healthy")
    page = alice.open("/topics/orders/delete")
    page.get_by_label("to confirm").fill("orders")
    page.get_by_role("button", name="Delete the topic").click()
    expect(page.get_by_role("alert")).to_contain_text("grant READ")
    assert alice.page.request.get("/topics/orders/messages").status == 200
    assert alice.page.request.get("/topics/salaries").status == 403
    page = alice.open("/topics")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("User", exact=True)).to_be_visible()
    assert alice.page.request.get("/topics/orders").status == 401
    assert alice.complaints == []


def test_two_users_at_the_same_time_keep_their_own_view(browser: Browser, console: ConsoleProcess) -> None:
    admin, alice = log_in(browser, console, "admin"), log_in(browser, console, "alice")
    expect(admin.page.locator("table")).to_contain_text("salaries")
    expect(alice.page.locator("table")).to_contain_text("orders")
    assert "salaries" not in alice.page.content()


def test_a_wrong_password_and_an_unknown_user_look_the_same(
    browser: Browser, console: ConsoleProcess
) -> None:
    for user in ("alice", "mallory"):
        visitor = log_in(browser, console, user, "wrong")
        expect(visitor.page.get_by_role("alert")).to_have_text("The user or password is wrong. Try again.")
        visitor.close()


def test_the_console_connects_with_its_own_user(browser: Browser, secured: Secured, tmp_path: Path) -> None:
    settings = secured.client("SASL_SSL", "admin", "SCRAM-SHA-512")
    bootstrap = settings.pop("bootstrap.servers")
    path = tmp_path / "client.properties"
    path.write_text(format_properties(settings))
    certificate = str(secured.folder / "broker.pem")
    https = ("--tls-certificate", certificate, "--tls-key", certificate)
    with ConsoleProcess(bootstrap, "--command-config", str(path), *https) as console:
        assert console.address.startswith("https://")
        visitor = Visitor(browser, console.address, ignore_https_errors=True)
        expect(visitor.open("/topics").locator("table")).to_contain_text("salaries")
        page = visitor.open("/topics/orders/produce")
        page.get_by_label("Value", exact=True).fill("from the console")
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("button", name="Produce the record").click()
        expect(page.get_by_role("status")).to_contain_text("The record was stored")
        assert all(cookie["secure"] for cookie in visitor.context.cookies())
        visitor.close()

"""Requests that the console rejects: changes when it is read-only, other hosts, other sites."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import APIRequestContext, Browser, expect

from ruslo.testing import EmbeddedBroker
from tests.support.console.console import ConsoleProcess, Visitor, new_producer

FORMS = [
    "/topics/new",
    "/topics/t/config",
    "/topics/t/partitions",
    "/topics/t/empty",
    "/topics/t/delete",
    "/topics/t/produce",
    "/group/reset?id=g",
    "/group/delete?id=g",
    "/brokers/1/config",
    "/transactions/abort?id=x",
    "/transactions/end-hanging?topic=t&partition=0&offset=0",
    "/pipelines/stop?folder=/",
    "/dead-letters/replay?topic=t",
    "/security/users/password",
    "/security/users/delete?name=t",
    "/security/acls/new",
    "/security/acls/delete",
    "/security/quotas/set",
    "/security/quotas/remove?user=t",
]
PAGES = [
    "/",
    "/topics",
    "/topics/t",
    "/topics/t/messages",
    "/topics/t/config",
    "/topics/t/groups",
    "/groups",
    "/brokers",
    "/brokers/1",
    "/pipelines",
    "/security/users",
    "/security/acls",
    "/security/quotas",
]


@pytest.fixture(scope="module")
def filled(broker: EmbeddedBroker) -> EmbeddedBroker:
    producer = new_producer(broker.bootstrap)
    producer.send("t", b"v")
    producer.flush(10)
    return broker


@pytest.fixture(scope="module")
def reader(browser: Browser, filled: EmbeddedBroker) -> Iterator[Visitor]:
    with ConsoleProcess(filled.bootstrap, "--read-only") as console:
        visitor = Visitor(browser, console.address)
        yield visitor
        visitor.close()


def token_of(request: APIRequestContext) -> str:
    found = re.search(r'name="form-token" content="(\w+)"', request.get("/topics").text())
    assert found is not None
    return found[1]


@pytest.mark.parametrize("path", FORMS)
def test_read_only_rejects_every_form(reader: Visitor, path: str) -> None:
    request = reader.page.request
    form: dict[str, str | float | bool] = {
        "form_token": token_of(request),
        "step": "confirm",
        "typed": "t",
        "name": "t",
    }
    rejected = request.post(path, form=form)
    assert (rejected.status, rejected.text()) == (
        403,
        "This console is read-only. Restart it without --read-only to make changes.\n",
    )


@pytest.mark.parametrize("path", PAGES)
def test_read_only_pages_have_no_forms(reader: Visitor, path: str) -> None:
    page = reader.open(path)
    expect(page.locator("header")).to_contain_text("read-only")
    links = page.locator("a").evaluate_all("links => links.map(link => link.pathname)")
    offered = {form.partition("?")[0] for form in FORMS} - {"/topics/t/config", "/brokers/1/config"}
    assert not offered & set(links)
    expect(page.locator("form[method=post]")).to_have_count(0)


@pytest.mark.parametrize("path", FORMS)
def test_a_form_without_a_token_changes_nothing(visitor: Visitor, filled: EmbeddedBroker, path: str) -> None:
    rejected = visitor.page.request.post(path, form={"step": "confirm", "typed": "t", "name": "t"})
    assert rejected.status == 403


def test_a_page_of_another_site_cannot_post(visitor: Visitor, filled: EmbeddedBroker) -> None:
    """Even with a leaked token: the browser reports the origin of the form."""
    token = token_of(visitor.page.request)
    visitor.page.route(
        "http://evil.test/",
        lambda route: route.fulfill(
            content_type="text/html",
            body=f"<form id=f method=post action='{visitor.address}/topics/t/delete'>"
            f"<input name=form_token value={token}><input name=step value=confirm>"
            "<input name=typed value=t></form>",
        ),
    )
    visitor.page.goto("http://evil.test/")
    with visitor.page.expect_response("**/topics/t/delete") as response:
        visitor.page.evaluate("document.getElementById('f').submit()")
    assert response.value.status == 403
    assert visitor.page.request.get(f"{visitor.address}/topics/t").status == 200


def test_a_rebound_host_name_is_rejected(visitor: Visitor) -> None:
    rejected = visitor.page.request.get("/topics", headers={"Host": "evil.test"})
    assert rejected.status == 421


def test_other_addresses_need_a_password(filled: EmbeddedBroker) -> None:
    command = [
        sys.executable,
        "-m",
        "ruslo.cli",
        "console",
        "-b",
        filled.bootstrap,
        "--host",
        "0.0.0.0",
        "--port",
        "0",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stdout) == (1, "")
    assert "needs a password" in result.stderr


def test_log_in_and_out(browser: Browser, filled: EmbeddedBroker) -> None:
    secret = {"RUSLO_CONSOLE_PASSWORD": "sesame"}
    with ConsoleProcess(filled.bootstrap, "--host", "0.0.0.0", environment=secret) as console:
        address = console.address.replace("0.0.0.0", "127.0.0.1")
        visitor = Visitor(browser, address)
        page = visitor.open("/topics?q=t")
        page.wait_for_url("**/login?next=*")
        expect(page.locator("header nav")).to_have_count(0)
        page.fill("[name=password]", "open")
        page.click("main button")
        expect(page.locator("[role=alert]")).to_have_text("The password is wrong. Try again.")
        page.fill("[name=password]", "sesame")
        page.click("main button")
        page.wait_for_url("**/topics?q=t")
        expect(page.locator("#list")).to_contain_text("t")
        page.click("button:has-text('Log out')")
        page.wait_for_url("**/login")
        assert page.request.get("/live").status == 401
        bearer = {"Authorization": "Bearer sesame"}
        assert page.request.get("/topics", headers=bearer).status == 200
        visitor.close()

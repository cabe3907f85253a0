"""Users, ACLs, quotas and the audit log, for persons who log in with an identity provider."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, expect

from ruslo.config.properties import format_properties
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import secured_node
from tests.support.console.console import ConsoleProcess, Visitor, make_topic, run_admin
from tests.support.network.oauth_provider import AUDIENCE, CLIENT_ID, CLIENT_SECRET, OpenIdProvider

OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
PASSWORD = "correct horse battery"


class Protected(NamedTuple):
    provider: OpenIdProvider
    console: ConsoleProcess
    plaintext: str

    @contextlib.contextmanager
    def visit(self, browser: Browser, person: str) -> Iterator[Visitor]:
        """A browser in which the person has logged in."""
        self.provider.person, self.provider.shows_page = person, True
        visitor = Visitor(browser, self.console.address)
        page = visitor.open("/topics?internal=1")
        page.get_by_role("link", name="Log in with").click()
        page.get_by_role("link", name="Continue").click()
        page.wait_for_url("**/topics?internal=1")
        self.provider.shows_page = False
        yield visitor
        visitor.close()
        assert visitor.complaints == []


@pytest.fixture
def alice(browser: Browser, protected: Protected) -> Iterator[Visitor]:
    with protected.visit(browser, "alice") as visitor:
        yield visitor


@pytest.fixture
def admin(browser: Browser, protected: Protected) -> Iterator[Visitor]:
    with protected.visit(browser, "admin") as visitor:
        yield visitor


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Protected]:
    folder = tmp_path_factory.mktemp("protected")
    audit_log = folder / "audit.log"
    client = folder / "client.properties"
    client.write_text(
        format_properties({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"})
    )
    with OpenIdProvider() as provider:
        secured = secured_node(
            RusloNode,
            folder,
            {
                "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": OAUTH_MODULE,
                "sasl.oauthbearer.jwks.endpoint.url": provider.write_keys(folder / "keys.json"),
                "sasl.oauthbearer.expected.issuer": provider.base_url,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "ruslo.audit.log": str(audit_log),
            },
        )
        options = {
            "--command-config": str(client),
            "--login": "oidc",
            "--oidc-issuer": provider.base_url,
            "--oidc-client-id": CLIENT_ID,
            "--oidc-client-secret": "env:CLIENT_SECRET",
            "--audit-log": str(audit_log),
        }
        with secured.node:
            plain = secured.addresses["PLAINTEXT"]
            for topic in ("orders", "salaries"):
                make_topic(plain, topic)
            reading = Acl(
                ResourceType.TOPIC,
                "orders",
                PatternType.LITERAL,
                "User:alice",
                "*",
                Operation.READ,
                Permission.ALLOW,
            )
            run_admin(plain, lambda admin: admin.acls.create([reading]))
            arguments = [text for pair in options.items() for text in pair]
            with ConsoleProcess(
                secured.addresses["SASL_PLAINTEXT"], *arguments, environment={"CLIENT_SECRET": CLIENT_SECRET}
            ) as console:
                yield Protected(provider, console, plain)


def test_a_person_sees_what_the_acls_of_the_access_token_allow(alice: Visitor) -> None:
    page = alice.page
    expect(page.locator("table")).to_contain_text("orders")
    expect(page.locator("table")).not_to_contain_text("salaries")
    expect(page.locator("header")).to_contain_text("alice")
    for path in ("/security/users", "/security/acls", "/security/quotas", "/security/audit"):
        expect(alice.open(path).get_by_role("alert")).to_contain_text("You are not authorized to")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("link", name="Log in with")).to_be_visible()
    assert page.request.get("/topics/orders").status == 401


def test_redirects_that_do_not_log_in_change_nothing(alice: Visitor, protected: Protected) -> None:
    page = alice.page
    callbacks: list[str] = []
    page.on("request", lambda sent: callbacks.append(sent.url) if "/login/callback" in sent.url else None)

    def cookies() -> dict[str, str]:
        return {cookie["name"]: cookie["value"] for cookie in alice.context.cookies()}

    before = cookies()
    alice.open("/login/callback?code=c&state=forged")
    expect(page.get_by_role("alert")).to_contain_text("was not begun in this browser")
    protected.provider.error = "access_denied"
    alice.open("/login/oidc")
    expect(page.get_by_role("alert")).to_contain_text("access_denied: the person said no")
    protected.provider.error, protected.provider.audience = None, "other"
    alice.open("/login/oidc")
    expect(page.get_by_role("alert")).to_contain_text("The cluster did not accept your access token")
    assert cookies() == before, "still logged in"
    protected.provider.audience = AUDIENCE
    alice.open("/login/oidc")
    page.wait_for_url(f"{alice.address}/")
    after = cookies()
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values()), "the session id rotates"
    page.goto(callbacks[-1])
    expect(page.get_by_role("alert")).to_contain_text("was completed already")
    assert cookies() == after


def test_an_access_token_that_is_not_renewed_ends_the_session(browser: Browser, protected: Protected) -> None:
    provider = protected.provider
    provider.token_lifetime_s, provider.gives_refresh_token = 3, False
    with protected.visit(browser, "alice") as visitor:
        provider.token_lifetime_s, provider.gives_refresh_token = 3600, True
        # The open page refreshes itself, and then shows why the session ended.
        expect(visitor.page.get_by_role("status")).to_contain_text("Your access token has expired")
        assert all("401" in complaint for complaint in visitor.complaints), "the browser reports the refresh"
        visitor.complaints.clear()


def test_an_acl_is_created_explained_and_deleted(admin: Visitor) -> None:
    page = admin.open("/security/explain?principal=User:bob&operation=write&type=topic&name=orders")
    expect(page.locator("#explanation")).to_contain_text("User:bob may not write topic orders")
    page.get_by_role("link", name="Create an ACL").click()
    page.get_by_label("create", exact=True).check()
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("Allow User:bob")
    page.get_by_role("button", name="Create 2 ACLs").click()
    expect(page.get_by_role("status")).to_have_text("2 ACLs of User:bob were created.")
    admin.open("/security/explain?principal=User:bob&operation=write&type=topic&name=orders")
    expect(page.locator("#explanation")).to_contain_text("This ACL decides: ALLOW User:bob WRITE")
    admin.open("/security/acls?resource=topic:orders")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.locator("tr", has_text="write").get_by_role("link", name="delete").click()
    page.get_by_role("button", name="Delete the ACL").click()
    expect(page.get_by_role("status")).to_contain_text("The ACL was deleted: ALLOW User:bob WRITE")
    page = admin.open("/security/audit?principal=admin&operation=DeleteAcls")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Follow live").click()
    expect(page.locator("#tail-state")).to_have_text("Following: 0 events")
    other = admin.context.new_page()
    other.goto("/security/acls?principal=User:bob")
    other.get_by_role("link", name="delete").click()
    other.get_by_role("button", name="Delete the ACL").click()
    expect(page.locator("#records")).to_contain_text("DeleteAcls")
    expect(page.locator("#tail-state")).to_have_text("Following: 1 events")


def test_a_user_and_a_quota_are_set_and_deleted(admin: Visitor) -> None:
    page = admin.open("/security/users/password")
    page.get_by_label("User").fill("dora")
    page.get_by_label("SCRAM-SHA-256").uncheck()
    page.get_by_role("button", name="Preview").click()
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("Again").fill("something else")
    page.get_by_role("button", name="Create the user").click()
    expect(page.get_by_role("alert")).to_contain_text("the passwords differ")
    assert PASSWORD not in page.content()
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("Again").fill(PASSWORD)
    page.get_by_role("button", name="Create the user").click()
    expect(page.locator("tr", has_text="dora")).to_contain_text("SCRAM-SHA-512")
    assert PASSWORD not in page.url
    page.locator("tr", has_text="dora").get_by_role("link", name="delete").click()
    page.get_by_label("to confirm").fill("dora")
    page.get_by_role("button", name="Delete the user").click()
    expect(page.get_by_role("status")).to_have_text("User dora was deleted.")
    page = admin.open("/security/quotas/set?user=dora")
    page.get_by_label("producer_byte_rate").fill("1048576")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Set the quotas").click()
    expect(page.locator("tr", has_text="user dora")).to_contain_text("1.0 MiB/s")
    page.locator("tr", has_text="user dora").get_by_role("link", name="remove").click()
    page.get_by_role("button", name="Remove the quota").click()
    expect(page.get_by_role("status")).to_contain_text("producer_byte_rate of user dora was removed.")

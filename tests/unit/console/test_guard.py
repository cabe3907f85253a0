from __future__ import annotations

import asyncio
from urllib.parse import urlencode

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ruslo.console import password_attempts
from ruslo.console.guard import MAX_BODY_BYTES, MAX_FIELDS, MAX_LOGIN_BODY_BYTES, MAX_LOGIN_FIELDS, Guard
from ruslo.console.sessions import Sessions
from ruslo.console.settings import ConsoleSettings
from tests.support.console.asgi import HttpResponse, request, request_async

SESSION = "s" * 43


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """The application behind the guard; it returns the form and its token."""
    request = Request(scope)
    text = f"passed {request.state.form.text('name')} {request.state.form_token}"
    await PlainTextResponse(text)(scope, receive, send)


class Guarded:
    def __init__(
        self, *, read_only: bool = False, password: str | None = None, names: tuple[str, ...] = ()
    ) -> None:
        self.settings = ConsoleSettings("b:9092", read_only=read_only, password=password, host_names=names)
        self.sessions = Sessions(password)
        self.app: ASGIApp = Guard(echo, self.settings, self.sessions)

    def get(self, path: str = "/", **headers: str) -> HttpResponse:
        return request(self.app, path, headers=_named(headers))

    def post(self, path: str = "/x", token: str | None = None, **headers: str) -> HttpResponse:
        token = self.sessions.form_token(SESSION) if token is None else token
        headers.setdefault("cookie", f"ruslo_console_8090={SESSION}")
        body = urlencode({"name": "value", "form_token": token}).encode()
        return request(self.app, path, method="POST", headers=_named(headers), body=body)


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize("host", ["127.0.0.1:8090", "localhost", "localhost:1", "[::1]:8090", "10.1.2.3"])
def test_hosts_that_cannot_be_rebound_are_served(host: str) -> None:
    assert Guarded().get(host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8090",
        "localhost.evil.example",
        "",
        "127.0.0.1.e",
        "[::1",
        "[e",
        "evil@localhost",
        "localhost:8090@evil.example",
        "localhost:port",
        "localhost/login?",
        "localhost/login#",
        "localhost?/login",
        "[::1]/login?",
        "127.0.0.1\\login",
        "localhost, evil.example",
        " localhost",
    ],
)
def test_other_host_names_are_rejected(host: str) -> None:
    response = Guarded().get(host=host)
    assert (response.status, "passed" in response.text) == (421, False)


def test_a_configured_host_name_is_served() -> None:
    assert Guarded(names=("Console.example",)).get(host="console.Example:8090").status == 200


def test_path_never_comes_from_the_host_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Request.url` includes the Host header."""

    def read_url(request: Request) -> None:
        raise AssertionError("Request.url was read")

    monkeypatch.setattr(Request, "url", property(read_url))
    guarded = Guarded(password="sesame")
    assert guarded.get("/topics", accept="text/html").headers["location"] == "/login?next=%2Ftopics"
    assert guarded.get("/login").status == 200


@pytest.mark.parametrize(
    "path",
    ["/loginx", "/login/", "/login/oidcx", "/login/callback/x", "/alive/../topics", "/static", "//login"],
)
def test_only_the_login_and_static_files_are_public(path: str) -> None:
    assert Guarded(password="sesame").get(path).status == 401


def test_a_target_that_is_not_a_path_is_rejected() -> None:
    assert Guarded().get("http://localhost/login").status == 400


def test_every_response_forbids_other_origins() -> None:
    guarded = Guarded()
    for response in (guarded.get(), guarded.get(host="evil.example"), guarded.post(token="wrong")):
        policy = response.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"


def test_a_redirect_to_the_callback_does_not_replace_the_cookie() -> None:
    """Browsers do not send the cookie along with it, and it may be forged."""
    assert "set-cookie" not in Guarded(password="sesame").get("/login/callback?state=x").headers


def test_cookie_is_scoped_to_this_console() -> None:
    cookie = Guarded().get().headers["set-cookie"]
    assert cookie.startswith("ruslo_console_8090=")
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}


def test_a_form_with_its_token_is_accepted() -> None:
    guarded = Guarded()
    response = guarded.post()
    assert (response.status, response.text.split()[:2]) == (200, ["passed", "value"])
    header = guarded.post(token="", x_form_token=guarded.sessions.form_token(SESSION))
    assert header.status == 200


def test_a_form_without_its_token_is_rejected() -> None:
    guarded = Guarded()
    other = guarded.sessions.form_token("o" * 43)
    for response in (guarded.post(token=""), guarded.post(token=other), guarded.post(cookie="x=1")):
        assert (response.status, "passed" in response.text) == (403, False)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_forms_of_other_sites_are_rejected(headers: dict[str, str]) -> None:
    assert Guarded().post(**headers).status == 403


def test_forms_of_the_same_origin_are_accepted() -> None:
    headers = {"origin": "http://127.0.0.1:8090", "sec_fetch_site": "same-origin"}
    assert Guarded().post(**headers).status == 200


def test_read_only_rejects_changes_of_the_cluster() -> None:
    guarded = Guarded(read_only=True)
    response = guarded.post("/topics/new")
    assert (response.status, response.text) == (
        403,
        "This console is read-only. Restart it without --read-only to make changes.\n",
    )
    token = guarded.sessions.form_token(SESSION)
    cookie = f"ruslo_console_8090={SESSION}"
    for method in ("PUT", "DELETE", "PATCH", "POST"):
        other = request(guarded.app, "/x", method=method, headers={"x-form-token": token, "cookie": cookie})
        assert other.status == 403
    assert guarded.post("/local/topics/t/schema").status == 200
    assert guarded.get("/topics").status == 200


def test_the_size_of_a_form_is_limited() -> None:
    guarded = Guarded()
    body = b"name=" + b"x" * MAX_BODY_BYTES
    assert request(guarded.app, "/x", method="POST", body=body).status == 413


def test_a_large_form_is_read_completely() -> None:
    guarded = Guarded()
    token = guarded.sessions.form_token(SESSION)
    body = b"name=%41&other=" + b"%42" * 100_000 + f"&form_token={token}".encode()
    cookie = {"cookie": f"ruslo_console_8090={SESSION}"}
    response = request(guarded.app, "/x", method="POST", body=body, headers=cookie)
    assert (response.status, response.text.split()[:2]) == (200, ["passed", "A"])


def test_the_number_of_fields_is_limited() -> None:
    guarded = Guarded()
    assert request(guarded.app, "/x", method="POST", body=b"a&" * MAX_FIELDS).status == 413


@pytest.mark.parametrize("body", [b"a=" + b"x" * MAX_LOGIN_BODY_BYTES, b"a&" * MAX_LOGIN_FIELDS])
def test_forms_before_a_login_are_short(body: bytes) -> None:
    assert request(Guarded(password="sesame").app, "/login", method="POST", body=body).status == 413
    assert request(Guarded().app, "/login", method="POST", body=body).status == 403, "the token is missing"


@pytest.mark.parametrize("length", ["99999999", "9" * 5000])
def test_a_large_content_length_is_rejected_before_the_body_is_read(length: str) -> None:
    assert request(Guarded().app, "/x", method="POST", headers={"content-length": length}).status == 413


def test_too_many_login_attempts_are_rejected() -> None:
    async def scenario() -> list[int]:
        app = Guarded(password="sesame").app

        async def guess(password: str) -> int:
            headers = {"authorization": f"Bearer {password}"}
            return (await request_async(app, "/topics", headers=headers)).status

        waiting = [
            asyncio.create_task(guess("wrong")) for _ in range(password_attempts.WAITING_PER_ADDRESS_MAX + 1)
        ]
        await asyncio.sleep(0)
        assert waiting[0].done()
        rejected = await guess("sesame")
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return [waiting[0].result(), rejected]

    assert asyncio.run(scenario()) == [401, 429]


def test_with_a_password_a_login_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_attempts, "CHECK_INTERVAL_S", 0.0)
    guarded = Guarded(password="sesame")
    page = guarded.get("/topics", accept="text/html")
    assert (page.status, page.headers["location"]) == (303, "/login?next=%2Ftopics")
    assert guarded.get("/", accept="text/html").headers["location"] == "/login"
    assert guarded.get("/topics").status == 401
    assert guarded.post("/topics/new").status == 401
    assert guarded.get("/login").status == 200
    assert guarded.get("/topics", authorization="Bearer wrong").status == 401
    assert guarded.get("/topics", authorization="Bearer sesame").status == 200


def test_a_password_may_have_any_characters() -> None:
    assert Guarded(password="пароль").get("/topics", authorization="Bearer пароль").status == 200


def test_an_invalid_origin_is_rejected() -> None:
    assert Guarded().post(origin="http://[").status == 403


def test_a_program_with_the_password_needs_no_form_token() -> None:
    guarded = Guarded(password="sesame")
    assert guarded.post(token="", cookie="", authorization="Bearer sesame").status == 200


def test_read_only_applies_to_programs_too() -> None:
    guarded = Guarded(password="sesame", read_only=True)
    assert guarded.post(token="", cookie="", authorization="Bearer sesame").status == 403

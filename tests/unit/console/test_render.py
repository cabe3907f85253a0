from __future__ import annotations

import jinja2
import pytest
from starlette.requests import Request

from ruslo.console.render import Renderer, link
from ruslo.console.settings import ConsoleSettings

HOSTILE = "<script>alert(1)</script>\"'&\u202egnp.exe"


@pytest.fixture
def request_() -> Request:
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/topics",
        "query_string": b"",
        "headers": [],
        "state": {},
    }
    request = Request(scope | {"server": ("127.0.0.1", 8090), "scheme": "http", "root_path": ""})
    request.state.form_token = "token"
    return request


def test_template_values_are_escaped_and_visible(request_: Request) -> None:
    renderer = Renderer(ConsoleSettings("b:1"), needs_login=False)
    page = renderer.text(
        request_, "problem.html", heading="h", reason=HOSTILE, parent_page=None, flash=None, problem=None
    )
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;⟨U+202E⟩gnp.exe" in page


def test_form_text_round_trips(request_: Request) -> None:
    renderer = Renderer(ConsoleSettings("b:1"), needs_login=False)
    template = renderer._environment.from_string('<input value="{{ value | exact }}">')
    assert template.render(value='\u202e"<') == '<input value="\u202e&#34;&lt;">'


def test_a_missing_template_value_is_an_error(request_: Request) -> None:
    renderer = Renderer(ConsoleSettings("b:1"), needs_login=False)
    with pytest.raises(jinja2.UndefinedError):
        renderer.text(request_, "problem.html", flash=None, problem=None)


def test_links_quote_names() -> None:
    assert link("/group", id="a/b?c&d=e f") == "/group?id=a%2Fb%3Fc%26d%3De+f"
    assert link("/topics", q="", page=2, from_="1h") == "/topics?page=2&from=1h"

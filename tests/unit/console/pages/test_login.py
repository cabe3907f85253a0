from __future__ import annotations

import pytest

from ruslo.console.pages.login import local_path


@pytest.mark.parametrize("path", ["/", "/topics?q=a%20b", "/group?id=ключ"])
def test_a_login_continues_on_the_requested_page(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["", "topics", "//evil.example", "/\\evil.example", "/\t/evil.example", "/\n/evil", "https://evil"],
)
def test_a_login_never_continues_on_another_site(path: str) -> None:
    assert local_path(path) == "/"

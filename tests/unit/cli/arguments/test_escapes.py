from __future__ import annotations

from ruslo.cli.arguments.escapes import unescape


def test_unescape_keeps_other_text() -> None:
    assert unescape("a\\x41é\\n") == b"aA" + "é".encode() + b"\n"

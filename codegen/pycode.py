"""Builds lines of Python code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Code:
    """Lines with the current indentation, and the names that the module must import."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.unpacked: set[str] = set()
        self.packed: set[str] = set()
        self.helpers: set[str] = set()
        self._depth = 0

    def line(self, text: str = "") -> None:
        self.lines.append("    " * self._depth + text if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def branch(self, test: str) -> Iterator[None]:
        """An ``if`` around what follows; nothing when the test is empty, that is, always true."""
        if test:
            with self.block(f"if {test}:"):
                yield
        else:
            yield

    def use(self, helper: str) -> str:
        """A name of ``ruslo.protocol.primitives``, which the module will import."""
        self.helpers.add(helper)
        return helper

    def pack(self, formats: str) -> str:
        self.packed.add(formats)
        return f"_pack_{struct_name(formats)}"

    def unpack(self, formats: str) -> str:
        self.unpacked.add(formats)
        return f"_unpack_{struct_name(formats)}"


def struct_name(formats: str) -> str:
    """The letters of a struct format, with letters also for uuids and bools."""
    return formats.replace("16s", "u").replace("?", "o")

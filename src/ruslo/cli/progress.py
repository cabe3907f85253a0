"""A line on stderr that is rewritten while a command works; silent unless stderr is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

_EVERY_S = 0.5


class Progress:
    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._next = time.monotonic() + _EVERY_S
        self._shown = False

    def tick(self, text: Callable[[], str]) -> None:
        """Cheap to call often; the text is made only when it is time to show it."""
        if self._on and time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_S
            self._shown = True
            click.echo(f"\r\x1b[K{text()}", nl=False, err=True)

    def clear(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)

"""A line on stderr that is rewritten while a command works; silent unless stderr is a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

import click

_EVERY_S = 0.5
_BAR_WIDTH = 24


class Progress:
    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._next = time.monotonic() + _EVERY_S
        self._shown = False

    def tick(self, text: Callable[[], str], share: Callable[[], float | None] | None = None) -> None:
        """Cheap to call often; the text is made only when it is time to show it.

        ``share`` says how much of the work is done, from 0 to 1, where that is known: then there is a bar.
        """
        if self._on and time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_S
            self._shown = True
            line = bar_line(text(), None if share is None else share())
            # A longer line would wrap, and the next one would not cover it.
            line = line[: shutil.get_terminal_size().columns - 1]
            click.echo(f"\r\x1b[K{line}", nl=False, err=True)

    def clear(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)


def bar_line(text: str, share: float | None) -> str:
    if share is None:
        return text
    share = min(max(share, 0.0), 1.0)
    filled = int(share * _BAR_WIDTH)
    return f"[{'█' * filled}{'·' * (_BAR_WIDTH - filled)}] {share:4.0%}  {text}"

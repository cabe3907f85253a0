"""A progress line on stderr, shown only on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

import click

_INTERVAL_S = 0.5
_BAR_WIDTH = 24


class Progress:
    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._next = time.monotonic() + _INTERVAL_S
        self._shown = False

    def tick(self, text: Callable[[], str], share: Callable[[], float | None] | None = None) -> None:
        """Update the line at most twice a second; ``text`` is called only then, so ticks are cheap.

        ``share`` returns the completed share of the work, from 0 to 1, which is shown as a bar.
        """
        if self._on and time.monotonic() >= self._next:
            self._next = time.monotonic() + _INTERVAL_S
            self._shown = True
            line = bar_line(text(), None if share is None else share())
            # A longer line would wrap, and the next update would not erase it.
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

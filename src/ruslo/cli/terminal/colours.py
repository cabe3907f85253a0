"""Colours on a terminal, unless NO_COLOR is set (no-color.org)."""

from __future__ import annotations

import os
import sys

import click


def painted(text: str, colour: str, *, err: bool = False) -> str:
    """The text, coloured if the stream (stdout or stderr) is a terminal with colours."""
    stream = sys.stderr if err else sys.stdout
    has_colours = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return click.style(text, fg=colour) if has_colours else text

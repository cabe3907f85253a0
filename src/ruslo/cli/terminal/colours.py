"""Colour for people at a terminal; none in files and pipes, and none where NO_COLOR is set (no-color.org)."""

from __future__ import annotations

import os
import sys

import click


def painted(text: str, colour: str, *, err: bool = False) -> str:
    """The text, in a colour if the stream (stdout, or stderr) is a terminal that wants it."""
    stream = sys.stderr if err else sys.stdout
    wanted = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return click.style(text, fg=colour) if wanted else text

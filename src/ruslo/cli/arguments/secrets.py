"""Secrets of commands: from a file, from stdin, from the environment or from a prompt.

A secret in an argument would be visible to every user of the machine, so commands accept one only where
Kafka's own tools do.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ruslo.model.secret import Secret

PASSWORD_VARIABLE = "RUSLO_PASSWORD"


def secret_lines(argument: str) -> list[Secret]:
    """The secrets of an argument: ``@FILE`` and ``-`` hold one per line, other text is the secret itself."""
    from ruslo.model.secret import Secret

    if argument == "-":
        text = sys.stdin.read()
    elif argument.startswith("@"):
        text = _read(Path(argument[1:]))
    else:
        text = argument
    return [Secret(line) for line in text.splitlines() if line.strip()]


def ask_password(prompt: str, file: Path | None) -> Secret:
    """The new password from a file, from RUSLO_PASSWORD, or from the terminal, where it is typed twice."""
    from ruslo.model.secret import Secret

    if file is not None:
        return Secret(first_line(file))
    variable = os.environ.get(PASSWORD_VARIABLE)
    if variable:
        return Secret(variable)
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"No password. Use --password-file FILE, or set {PASSWORD_VARIABLE}; stdin is not a terminal."
        )
    return Secret(click.prompt(prompt, hide_input=True, confirmation_prompt=True, err=True))


def first_line(file: Path) -> str:
    """The password of a file."""
    lines = _read(file).splitlines()
    if not lines or not lines[0]:
        raise click.ClickException(f"{file} is empty. Put the password into its first line")
    return lines[0]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror}. Check the path.") from None

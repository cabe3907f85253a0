"""``--days``: how long a certificate is valid."""

from __future__ import annotations

from collections.abc import Callable

import click

from ruslo.cli.arguments.options import F

_MAX_DAYS = 36500


def days_option(default: int) -> Callable[[F], F]:
    return click.option(
        "--days",
        type=click.IntRange(1, _MAX_DAYS),
        default=default,
        show_default=True,
        help="Days until the certificate expires.",
    )

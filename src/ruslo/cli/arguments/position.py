"""Options that take a position in a partition."""

from __future__ import annotations

import click

from ruslo.client.views.position import Position, parse_position


def position_callback(ctx: click.Context, param: click.Parameter, value: str | None) -> Position | None:
    try:
        return None if value is None else parse_position(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None

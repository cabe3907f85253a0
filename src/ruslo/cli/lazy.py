"""A command group that lists its commands without importing them.

``ruslo --help`` must be instant, so the module of a command is imported only when the command runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyCommand(NamedTuple):
    module: str
    attribute: str
    short_help: str


class LazyGroup(click.Group):
    def __init__(
        self,
        name: str | None = None,
        *,
        lazy: Mapping[str, LazyCommand],
        help: str | None = None,
        epilog: str | None = None,
        callback: Callable[..., object] | None = None,
        params: list[click.Parameter] | None = None,
        context_settings: dict[str, object] | None = None,
    ) -> None:
        super().__init__(
            name,
            help=help,
            epilog=epilog,
            callback=callback,
            params=params,
            context_settings=context_settings,
        )
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.lazy.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command), f"{entry.module}.{entry.attribute} is not a command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(f"{error.message} {self._suggestion(args[0])}", ctx) from None

    def _suggestion(self, word: str) -> str:
        import difflib

        near = difflib.get_close_matches(word, self.lazy, n=1, cutoff=0.6)
        return f"Did you mean {near[0]!r}?" if near else "Run 'ruslo --help' for the list of commands."

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names from the table, without importing the commands."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.short_help)
            for name, entry in self.lazy.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in self.lazy.items()])

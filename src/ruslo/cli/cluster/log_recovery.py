"""What ``cluster info`` shows of brokers that still recover their logs after a crash."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from ruslo.cli.terminal.output import print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.settings.bootstrap_servers import Address
    from ruslo.protocol.recovery_tag import Recovery


def fail_if_all_are_starting(bootstrap: str, output: str) -> None:
    """With nobody but brokers that are starting there is a recovery to show and no cluster yet."""
    from ruslo.client.admin.log_dirs import recovery_at
    from ruslo.client.settings.bootstrap_servers import parse_bootstrap

    addresses = parse_bootstrap(bootstrap)

    async def ask() -> list[dict[str, Recovery]]:
        return await asyncio.gather(*map(recovery_at, addresses))

    found = dict(zip(addresses, asyncio.run(ask()), strict=True))
    if not all(found.values()):
        return
    if output == "json":
        print_json({"starting": _as_json(found)})
    else:
        print_table(
            ["ADDRESS", "LOG DIRECTORY", "STATE"],
            [
                (address, path, in_words(recovery))
                for address, directories in found.items()
                for path, recovery in directories.items()
            ],
        )
    raise click.ClickException(
        "no broker serves yet: logs are recovered after a crash. Ask again in a moment; "
        "the broker's own log says the same and more"
    )


def in_words(recovery: Recovery) -> str:
    return (
        f"recovering: {recovery.logs_done} of {recovery.logs_total} logs, "
        f"{recovery.segments_done} of {recovery.segments_total} segments"
    )


def _as_json(found: dict[Address, dict[str, Recovery]]) -> list[dict[str, object]]:
    return [
        {"address": str(address), "path": path, "recovery": recovery._asdict()}
        for address, directories in found.items()
        for path, recovery in directories.items()
    ]

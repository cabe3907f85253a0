"""Log recovery of brokers that are starting after a crash, for ``cluster info``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from ruslo.cli.terminal.output import print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.settings.bootstrap_servers import Address
    from ruslo.protocol.recovery_tag import Recovery


def fail_if_all_are_recovering(bootstrap: str, output: str) -> None:
    """Print the recovery progress and exit with 1 if every bootstrap server is still recovering."""
    from ruslo.client.admin.log_dirs import recovery_at
    from ruslo.client.settings.bootstrap_servers import parse_bootstrap

    addresses = parse_bootstrap(bootstrap)

    async def query() -> list[dict[str, Recovery]]:
        return await asyncio.gather(*map(recovery_at, addresses))

    found = dict(zip(addresses, asyncio.run(query()), strict=True))
    if not all(found.values()):
        return
    if output == "json":
        print_json({"starting": _as_json(found)})
    else:
        print_table(
            ["ADDRESS", "LOG DIRECTORY", "STATE"],
            [
                (address, path, shown_recovery(recovery))
                for address, directories in found.items()
                for path, recovery in directories.items()
            ],
        )
    raise click.ClickException(
        "All brokers are recovering their logs after a crash. Try again in a moment, or read the log of "
        "a broker for details"
    )


def shown_recovery(recovery: Recovery) -> str:
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

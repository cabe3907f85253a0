"""``ruslo cluster quorum``: the controllers and observers of the metadata log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_fields, print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.admin.quorum import Quorum, QuorumReplica


@click.command(epilog=examples("ruslo cluster quorum", "ruslo cluster quorum -o json | jq .leader_id"))
@bootstrap_option
@output_option
def quorum(bootstrap: str, output: str) -> None:
    """Show the active controller, the voters and observers, and the lag of each node."""
    found = with_admin(bootstrap, lambda admin: admin.quorum.describe())
    rows = [replica_row(found, each, "voter") for each in found.voters]
    rows += [replica_row(found, each, "observer") for each in found.observers]
    if output == "json":
        print_json(
            {
                "leader_id": found.leader_id,
                "leader_epoch": found.leader_epoch,
                "high_watermark": found.high_watermark,
                "replicas": rows,
            }
        )
        return
    print_fields(
        [
            ("Active controller", found.leader_id),
            ("Epoch", found.leader_epoch),
            ("High watermark", found.high_watermark),
            ("Voters", [each.replica_id for each in found.voters]),
            ("Observers", [each.replica_id for each in found.observers]),
        ]
    )
    click.echo()
    print_replicas(rows)


def replica_row(found: Quorum, each: QuorumReplica, role: str) -> dict[str, object]:
    from ruslo.model.ids import uuid_to_text

    leader_end = max((voter.log_end_offset for voter in found.voters), default=0)
    return {
        "id": each.replica_id,
        "role": "leader" if each.replica_id == found.leader_id and role == "voter" else role,
        "directory_id": uuid_to_text(each.directory_id),
        "endpoints": [
            f"{endpoint.listener_name}://{endpoint.host}:{endpoint.port}"
            for endpoint in found.endpoints.get(each.replica_id, ())
        ]
        if role == "voter"
        else [],
        "log_end_offset": each.log_end_offset,
        "lag": max(leader_end - each.log_end_offset, 0),
        "caught_up_ms_ago": _ms_ago(each.last_caught_up_timestamp_ms),
    }


def _ms_ago(timestamp_ms: int) -> int | None:
    return max(time.time_ns() // 1_000_000 - timestamp_ms, 0) if timestamp_ms >= 0 else None


def print_replicas(rows: list[dict[str, object]]) -> None:
    print_table(
        ["NODE", "ROLE", "DIRECTORY", "ENDPOINTS", "LOG END", "LAG", "CAUGHT UP"],
        [
            (
                row["id"],
                row["role"],
                row["directory_id"],
                row["endpoints"],
                row["log_end_offset"],
                row["lag"],
                "-" if row["caught_up_ms_ago"] is None else f"{row['caught_up_ms_ago']} ms ago",
            )
            for row in rows
        ],
    )

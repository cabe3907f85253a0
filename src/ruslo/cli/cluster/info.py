"""``ruslo cluster info``: an overview of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.cluster.log_recovery import fail_if_all_are_recovering, shown_recovery
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import human_bytes, print_fields, print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.brokers import ClusterDescription
    from ruslo.client.admin.features import Feature
    from ruslo.client.admin.log_dirs import LogDirectory
    from ruslo.client.admin.quorum import Quorum
    from ruslo.client.views.partition_health import PartitionAtRisk
    from ruslo.client.wire.metadata import PartitionInfo, TopicInfo


@dataclass(frozen=True, slots=True)
class Overview:
    """What ``cluster info`` prints."""

    description: ClusterDescription
    quorum: Quorum
    features: tuple[Feature, ...]
    topics: list[TopicInfo]
    directories: list[LogDirectory]
    at_risk: list[PartitionAtRisk]

    @property
    def partitions(self) -> list[PartitionInfo]:
        return [partition for topic in self.topics for partition in topic.partitions]

    @property
    def leaderless(self) -> int:
        return sum(each.leader_id < 0 for each in self.partitions)

    @property
    def under_replicated(self) -> int:
        return sum(len(each.isr) < len(each.replicas) for each in self.partitions)

    def count(self, risk: str) -> int:
        return sum(each.risk.label == risk for each in self.at_risk)

    def replicas_on(self, node_id: int) -> int:
        return sum(node_id in each.replicas for each in self.partitions)

    def leaders_on(self, node_id: int) -> int:
        return sum(node_id == each.leader_id for each in self.partitions)


@click.command(
    epilog=examples("ruslo cluster info", "ruslo cluster info -b broker1:9092,broker2:9092 -o json")
)
@bootstrap_option
@output_option
def info(bootstrap: str, output: str) -> None:
    """Show brokers, controllers, log directories, features and partition health.

    For a broker that is starting after a crash, the progress of log recovery is shown. Exit code 1: all
    brokers are still recovering.
    """
    from ruslo.client.views.partition_health import partitions_at_risk

    async def gather(admin: Admin) -> Overview:
        description = await admin.brokers.describe_cluster()
        directories = []
        for node, fenced in description.brokers:
            if fenced:
                directories += await admin.log_dirs.recovering(node)
            else:
                directories += await admin.log_dirs.describe(node.id)
        topics = await admin.topics.list()
        return Overview(
            description,
            await admin.quorum.describe(),
            (await admin.features.describe()).features,
            topics,
            directories,
            await partitions_at_risk(admin, topics),
        )

    fail_if_all_are_recovering(bootstrap, output)
    overview = with_admin(bootstrap, gather)
    if output == "json":
        print_json(_as_json(overview))
    else:
        _print_text(overview)


def _print_text(overview: Overview) -> None:
    description, quorum = overview.description, overview.quorum
    print_fields(
        [
            ("Cluster", description.cluster_id),
            ("Topics", len(overview.topics)),
            ("Partitions", len(overview.partitions)),
            ("Without leader", overview.leaderless),
            ("Under-replicated", overview.under_replicated),
            ("Under min ISR", overview.count("under-min-isr")),
            ("At min ISR", overview.count("at-min-isr")),
            ("Active controller", quorum.leader_id),
            ("Voters", [voter.replica_id for voter in quorum.voters]),
            ("Metadata offset", f"{quorum.high_watermark} in epoch {quorum.leader_epoch}"),
            ("Features", " ".join(f"{f.name}={f.finalized}" for f in overview.features if f.finalized)),
        ]
    )
    click.echo()
    print_table(
        ["BROKER", "ADDRESS", "RACK", "STATE", "LEADERS", "REPLICAS"],
        [
            (
                node.id,
                node.address,
                node.rack,
                "fenced" if fenced else "active",
                overview.leaders_on(node.id),
                overview.replicas_on(node.id),
            )
            for node, fenced in description.brokers
        ],
    )
    click.echo()
    print_table(
        ["BROKER", "LOG DIRECTORY", "STATE", "USED", "FREE"],
        [
            (
                d.node_id,
                d.path,
                _state(d),
                human_bytes(sum(replica.size_bytes for replica in d.replicas)),
                "-" if d.usable_bytes < 0 else human_bytes(d.usable_bytes),
            )
            for d in overview.directories
        ],
    )


def _state(directory: LogDirectory) -> str:
    if directory.recovery is not None:
        return shown_recovery(directory.recovery)
    if directory.error is not None:
        return directory.error.code.name
    return "cordoned" if directory.cordoned else "online"


def _as_json(overview: Overview) -> dict[str, object]:
    description, quorum = overview.description, overview.quorum
    return {
        "cluster_id": description.cluster_id,
        "topics": len(overview.topics),
        "partitions": len(overview.partitions),
        "partitions_without_leader": overview.leaderless,
        "partitions_under_replicated": overview.under_replicated,
        "partitions_under_min_isr": overview.count("under-min-isr"),
        "partitions_at_min_isr": overview.count("at-min-isr"),
        "brokers": [
            {
                "id": node.id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                "fenced": fenced,
                "leaders": overview.leaders_on(node.id),
                "replicas": overview.replicas_on(node.id),
            }
            for node, fenced in description.brokers
        ],
        "quorum": {
            "leader_id": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": [
                {"id": voter.replica_id, "log_end_offset": voter.log_end_offset} for voter in quorum.voters
            ],
            "observers": [
                {"id": other.replica_id, "log_end_offset": other.log_end_offset} for other in quorum.observers
            ],
        },
        "features": {
            f.name: {"finalized": f.finalized, "min": f.supported_min, "max": f.supported_max}
            for f in overview.features
        },
        "log_directories": [
            {
                "broker": d.node_id,
                "path": d.path,
                "error": None if d.error is None else d.error.code.name,
                "cordoned": d.cordoned,
                "used_bytes": sum(replica.size_bytes for replica in d.replicas),
                "usable_bytes": d.usable_bytes,
                "total_bytes": d.total_bytes,
                "recovery": None if d.recovery is None else d.recovery._asdict(),
            }
            for d in overview.directories
        ],
    }

"""``ruslo cluster reassign plan``: compute new replicas of partitions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.arguments.partition_scope import Scope, scopes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, human_bytes, print_json, table_lines
from ruslo.client.views.partition_lists import shown_partitions

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.brokers import Broker
    from ruslo.client.wire.metadata import TopicInfo
    from ruslo.model.topics import TopicPartition


def broker_ids_callback(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    if value is None:
        return ()
    words = [word.strip() for word in value.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise click.BadParameter(f"{value!r} is not a list of broker IDs. Write it as 1,2,3.", ctx, param)
    return tuple(dict.fromkeys(map(int, words)))


class Proposal(NamedTuple):
    brokers: tuple[Broker, ...]
    current: dict[TopicPartition, tuple[int, ...]]
    plan: dict[TopicPartition, tuple[int, ...]]
    copied_bytes: int
    leaderless: list[TopicPartition]
    """Partitions of the plan that have no leader to copy from."""

    @property
    def copies(self) -> int:
        return sum(len(set(new) - set(self.current[partition])) for partition, new in self.plan.items())


@click.command(
    "plan",
    epilog=examples(
        "ruslo cluster reassign plan --drain 3 > plan.json",
        "ruslo cluster reassign plan --topic orders --topic payments --to-brokers 1,2,3 > plan.json",
        "ruslo cluster reassign plan --topic orders --replication-factor 3 > plan.json",
        "ruslo cluster reassign plan --all-topics --to-brokers 1,2,3,4 --drain 5 > plan.json",
    ),
)
@bootstrap_option
@click.option(
    "--drain",
    type=click.IntRange(0),
    multiple=True,
    metavar="BROKER",
    help="Move all replicas off this broker. Repeatable.",
)
@click.option(
    "--to-brokers",
    callback=broker_ids_callback,
    metavar="ID,…",
    help="Spread the partitions evenly over these brokers.",
)
@click.option("-r", "--replication-factor", type=click.IntRange(1), help="New replication factor.")
@scopes_option("Partitions to move")
@click.option(
    "--all-topics", is_flag=True, help="All topics, including internal ones (the default of --drain)."
)
@output_option
def plan(
    bootstrap: str,
    drain: tuple[int, ...],
    to_brokers: tuple[int, ...],
    replication_factor: int | None,
    scopes: list[Scope],
    all_topics: bool,
    output: str,
) -> None:
    """Print a reassignment plan in the format of Kafka's tool, without changing anything.

    The plan moves as few replicas as possible. New replicas go to racks without a replica of the partition,
    and there to the broker with the fewest replicas; a broker whose log directories are all cordoned gets
    none unless --to-brokers names it. Review or edit the plan, then run 'ruslo cluster reassign execute'.
    """
    from ruslo.cli.cluster.reassign.plan_file import Plan, format_plan, plan_as_json

    if not drain and not to_brokers and replication_factor is None:
        raise click.UsageError("Choose what to plan: use --drain, --to-brokers or --replication-factor.")
    if scopes and all_topics:
        raise click.UsageError("--topic and --all-topics exclude each other. Remove one.")
    if not scopes and not all_topics and (to_brokers or replication_factor is not None):
        raise click.UsageError("Choose what to move: use --topic TOPIC[:PARTITIONS] or --all-topics.")
    proposal = with_admin(
        bootstrap, lambda admin: propose(admin, drain, to_brokers, replication_factor, scopes)
    )
    if output == "json":
        print_json(plan_as_json(Plan(proposal.plan)))
        return
    click.echo(format_plan(Plan(proposal.plan)), nl=False)
    _summarize(proposal)


async def propose(
    admin: Admin,
    drain: Sequence[int],
    to_brokers: Sequence[int],
    replication_factor: int | None,
    scopes: Sequence[Scope],
) -> Proposal:
    from ruslo.cli.arguments.partition_scope import partitions_in
    from ruslo.client.views.replica_placement import PlacementRequest, plan_replicas
    from ruslo.model.errors import ErrorCode, KafkaError

    brokers = (await admin.brokers.describe_cluster()).brokers
    known = {broker.node.id for broker in brokers}
    missing = sorted({*drain, *to_brokers} - known)
    topics = await admin.topics.list()
    current = await _assignments(admin, topics)
    # A broker that was unregistered can still be drained while partitions list it as a replica.
    unknown = [each for each in missing if each in to_brokers or not any(each in r for r in current.values())]
    if unknown:
        present = ", ".join(map(str, sorted(known)))
        raise click.ClickException(f"Unknown broker {unknown[0]}; the brokers are {present}")
    wanted = set(to_brokers or known) - set(drain)
    targets = [each.node for each in brokers if each.node.id in wanted and not each.fenced]
    # Brokers that --to-brokers names are used in any case.
    cordoned = set() if to_brokers else await _cordoned(admin, [node.id for node in targets])
    request = PlacementRequest(
        racks={node.id: node.rack for node in targets if node.id not in cordoned},
        may_stay_on=wanted,
        replication_factor=replication_factor,
        spread=bool(to_brokers),
    )
    selected = await partitions_in(admin, scopes) if scopes else list(current)
    for partition in selected:
        if partition not in current:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unknown partition {partition}")
    found = plan_replicas(current, selected, request)
    leaders = _leaders_of(topics, found)
    return Proposal(
        brokers,
        current,
        found,
        await _copied_bytes(admin, leaders, current, found),
        [partition for partition, leader in leaders.items() if leader < 0],
    )


async def _cordoned(admin: Admin, brokers: Sequence[int]) -> set[int]:
    """The brokers whose log directories are all cordoned: they get no new replicas (KIP-1066)."""
    found = set()
    for broker in brokers:
        directories = [each for each in await admin.log_dirs.describe(broker) if each.error is None]
        if directories and all(each.cordoned for each in directories):
            found.add(broker)
    return found


async def _assignments(admin: Admin, topics: Sequence[TopicInfo]) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of all partitions; for an ongoing move, its target."""
    from ruslo.model.topics import TopicPartition

    ongoing = await admin.reassignments.ongoing()
    return {
        (tp := TopicPartition(topic.name, each.partition)): (
            ongoing[tp].target if tp in ongoing else each.replicas
        )
        for topic in topics
        for each in topic.partitions
    }


def _leaders_of(topics: Sequence[TopicInfo], found: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    from ruslo.model.topics import TopicPartition

    return {
        tp: each.leader_id
        for topic in topics
        for each in topic.partitions
        if (tp := TopicPartition(topic.name, each.partition)) in found
    }


async def _copied_bytes(
    admin: Admin,
    leaders: dict[TopicPartition, int],
    current: dict[TopicPartition, tuple[int, ...]],
    found: dict[TopicPartition, tuple[int, ...]],
) -> int:
    total = 0
    for broker in sorted(set(leaders.values()) - {-1}):
        for directory in await admin.log_dirs.describe(broker):
            for replica in directory.replicas:
                if leaders.get(replica.partition) == broker and not replica.is_future:
                    copies = set(found[replica.partition]) - set(current[replica.partition])
                    total += replica.size_bytes * len(copies)
    return total


def _summarize(proposal: Proposal) -> None:
    """Summarize on stderr, so that stdout holds only the plan."""
    if not proposal.plan:
        click.echo("No partition needs to change.", err=True)
        return
    click.echo(
        f"{len(proposal.plan)} partitions change, {proposal.copies} replicas are copied "
        f"({human_bytes(proposal.copied_bytes)}). By broker:",
        err=True,
    )
    after = {**proposal.current, **proposal.plan}
    replicas_before, replicas_after = _replicas(proposal.current), _replicas(after)
    leaders_before, leaders_after = _leaders(proposal.current), _leaders(after)
    lines = table_lines(
        ["BROKER", "RACK", "REPLICAS", "THEN", "PREFERRED", "THEN"],
        [
            (
                node.id,
                node.rack,
                replicas_before[node.id],
                replicas_after[node.id],
                leaders_before[node.id],
                leaders_after[node.id],
            )
            for node, _ in proposal.brokers
        ],
    )
    for line in lines:
        click.echo(line, err=True)
    if proposal.leaderless:
        click.echo(
            f"Note: {shown_partitions(proposal.leaderless)} has no leader and cannot be copied until one of "
            "its replicas is online (see 'ruslo cluster topics-at-risk').",
            err=True,
        )
    hint("Execute it: ruslo cluster reassign execute plan.json --wait")


def _replicas(assigned: dict[TopicPartition, tuple[int, ...]]) -> Counter[int]:
    return Counter(broker for replicas in assigned.values() for broker in replicas)


def _leaders(assigned: dict[TopicPartition, tuple[int, ...]]) -> Counter[int]:
    return Counter(replicas[0] for replicas in assigned.values())

"""``ruslo share reject`` and ``ruslo share release``: acknowledge single records by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_share_groups
from ruslo.cli.arguments.options import F, bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.offsets.group_types import or_name_the_command
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.views.share_records import Outcome
    from ruslo.machines.share_partition.states import AcknowledgeType

_RECORD = re.compile(
    r"(?P<topic>[^:@]+):(?P<partition>\d{1,9})@(?P<first>\d{1,18})(?:-(?P<last>\d{1,18}))?\Z"
)
_RECORDS_MAX = 10_000

_LIMITS = """
    The protocol lets only the holder of a record acknowledge it, and a fetch cannot name offsets. So this
    command acquires the available records of the partition one by one up to the last one that you name, and
    releases the others. That has consequences:

    \b
    - A record that a consumer holds is reported as unavailable. Try again when its lock has expired
      (share.record.lock.duration.ms of the group), or stop the consumer.
    - Records on the way count one more delivery. One that reaches share.delivery.count.limit is archived
      when it is released: it is not delivered any more. The command lists such records.
    - Consumers of the group may acquire the records first. They do not see the command as a member.
"""


def records_callback(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> dict[TopicPartition, set[int]]:
    found: dict[TopicPartition, set[int]] = {}
    for value in values:
        match = _RECORD.match(value)
        first = int(match["first"]) if match else 0
        last = int(match["last"] or match["first"]) if match else -1
        if match is None or last < first:
            raise click.BadParameter(
                f"{value!r} is not a record. Write TOPIC:PARTITION@OFFSET or TOPIC:PARTITION@FIRST-LAST, "
                "such as orders:0@42.",
                ctx,
                param,
            )
        offsets = found.setdefault(TopicPartition(match["topic"], int(match["partition"])), set())
        if last - first >= _RECORDS_MAX - sum(map(len, found.values())):
            raise click.BadParameter(f"Name at most {_RECORDS_MAX:,} records.", ctx, param)
        offsets.update(range(first, last + 1))
    return found


def _arguments(function: F) -> F:
    for decorator in (
        output_option,
        yes_option,
        bootstrap_option,
        click.argument(
            "records",
            nargs=-1,
            required=True,
            metavar="TOPIC:PARTITION@OFFSET...",
            callback=records_callback,
        ),
        click.argument("name", metavar="GROUP", shell_complete=complete_share_groups),
    ):
        function = decorator(function)
    return function


@click.command(
    epilog=examples(
        "ruslo share reject invoices orders:0@42",
        "ruslo share reject invoices orders:0@42-44 orders:2@7 --yes",
    ),
    help="Reject records: they are archived, and not delivered any more.\n" + _LIMITS,
)
@_arguments
def reject(
    name: str, records: dict[TopicPartition, set[int]], bootstrap: str, yes: bool, output: str
) -> None:
    from ruslo.machines.share_partition.states import AcknowledgeType

    _run(name, records, bootstrap, yes, output, AcknowledgeType.REJECT, "reject", "rejected")


@click.command(
    epilog=examples(
        "ruslo share release invoices orders:0@42", "ruslo share release invoices orders:0@42 -o json"
    ),
    help="Release records, and show how often each was delivered.\n\n"
    "    A record that is available is acquired and released, which counts as a delivery: this shows that no "
    "consumer holds it, and its delivery count.\n" + _LIMITS,
)
@_arguments
def release(
    name: str, records: dict[TopicPartition, set[int]], bootstrap: str, yes: bool, output: str
) -> None:
    from ruslo.machines.share_partition.states import AcknowledgeType

    _run(name, records, bootstrap, yes, output, AcknowledgeType.RELEASE, "release", "released")


def _run(
    name: str,
    records: dict[TopicPartition, set[int]],
    bootstrap: str,
    yes: bool,
    output: str,
    kind: AcknowledgeType,
    verb: str,
    done: str,
) -> None:
    from ruslo.client.views.share_group_view import describe_one_share_group
    from ruslo.client.views.share_records import acknowledge_records

    count = sum(map(len, records.values()))
    confirm(
        f"{verb.capitalize()} {count} record{'' if count == 1 else 's'} of {name}? Other available records "
        "before them count one more delivery.",
        yes,
    )

    async def run(admin: Admin) -> list[Outcome]:
        await or_name_the_command(admin, name, "describe", describe_one_share_group(admin, name))
        return await acknowledge_records(admin, name, records, kind)

    outcomes = with_admin(bootstrap, run)
    if output == "json":
        print_json([row for outcome in outcomes for row in _rows(outcome, done)])
    else:
        for outcome in outcomes:
            _print(outcome, done)
    if any(outcome.failed or outcome.unavailable for outcome in outcomes):
        raise click.exceptions.Exit(1)


def _rows(outcome: Outcome, done: str) -> list[dict[str, object]]:
    found: dict[int, dict[str, object]] = {}
    for status, offsets in (
        (done, outcome.acknowledged),
        ("failed", outcome.failed),
        ("unavailable", outcome.unavailable),
        ("passed", outcome.others),
    ):
        for offset in offsets:
            found[offset] = {
                **outcome.partition._asdict(),
                "offset": offset,
                "status": "archived" if offset in outcome.archived else status,
                "delivery_count": outcome.acknowledged.get(offset, outcome.others.get(offset)),
                "error": outcome.failed[offset].code.name if offset in outcome.failed else None,
            }
    return [found[offset] for offset in sorted(found)]


def _print(outcome: Outcome, done: str) -> None:
    partition = outcome.partition
    for offset, count in sorted(outcome.acknowledged.items()):
        click.echo(f"{done} {partition} at offset {offset} (delivery {count})")
    for offset, error in sorted(outcome.failed.items()):
        click.echo(f"{partition} at offset {offset}: {error}", err=True)
    for offset in outcome.unavailable:
        click.echo(
            f"{partition} at offset {offset} is not available: a consumer holds it, or it is accepted, "
            "rejected or archived",
            err=True,
        )
    if outcome.others:
        others = len(outcome.others)
        click.echo(
            f"{others} other record{'' if others == 1 else 's'} of {partition} counted one more delivery.",
            err=True,
        )
    if outcome.archived:
        shown = ", ".join(map(str, outcome.archived))
        click.echo(f"Archived in {partition}, as the delivery limit is reached: {shown}", err=True)

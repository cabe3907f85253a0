"""``ruslo log verify``: find corruption in log directories or in topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.terminal.output import hint, human_bytes, print_json
from ruslo.cli.terminal.progress import Progress

if TYPE_CHECKING:
    from ruslo.storage.verify import PartitionReport


_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(
    epilog=examples(
        "ruslo log verify data",
        "ruslo log verify data/orders-0 -o json",
        "ruslo log verify --topic orders -b broker1:9092",
    )
)
@click.argument("directories", nargs=-1, type=_DIRECTORY, metavar="[DIR]...")
@click.option(
    "--topic", "topics", multiple=True, help="Verify a topic by reading it from its leaders. Repeatable."
)
@click.option("--all", "show_all", is_flag=True, help="List every partition, not only damaged ones.")
@bootstrap_option
@output_option
def verify(
    directories: tuple[Path, ...], topics: tuple[str, ...], show_all: bool, bootstrap: str, output: str
) -> None:
    """Verify every batch of log directories, or of topics.

    In a DIR (a log directory or the directory of one partition), it verifies checksums, order and counts, and
    that indexes, producer snapshots and checkpoints match the log. Nothing is changed. While a broker writes
    to the directory, the end of the active segment can appear damaged.

    With --topic, it verifies the batches that the leaders return. Exit code 1: a partition is damaged.
    """
    if bool(directories) == bool(topics):
        raise click.UsageError("Choose what to verify: use either log directories or --topic.")
    reports = _verify_topics(bootstrap, topics) if topics else verify_directories(directories)
    if output == "json":
        print_json({"partitions": [report_json(report) for report in reports]})
    else:
        _print(reports, show_all)
    damaged = sum(bool(report.findings) for report in reports)
    if damaged:
        if directories:
            hint(f"Show what can be repaired: ruslo log repair {' '.join(map(str, directories))}")
        raise click.ClickException(f"{damaged} of {len(reports)} partitions are damaged")


def verify_directories(directories: tuple[Path, ...]) -> list[PartitionReport]:
    from ruslo.storage.local_disk import LocalDisk
    from ruslo.storage.verify import PartitionCheck, partition_directories

    progress = Progress()
    done = 0
    total = max(1, sum(path.stat().st_size for each in directories for path in each.rglob("*.log")))
    reports = []
    for directory in directories:
        root = str(directory.resolve())
        for path in partition_directories(LocalDisk(root), root):

            def tick(size: int, path: str = path) -> None:
                nonlocal done
                done += size
                progress.tick(lambda: f"{human_bytes(done)} verified, now {path}", lambda: done / total)

            reports.append(PartitionCheck(LocalDisk(root), path, tick).run())
    progress.clear()
    return reports


def _verify_topics(bootstrap: str, topics: tuple[str, ...]) -> list[PartitionReport]:
    from ruslo.cli.log.verify_topic import verify_topics

    return verify_topics(bootstrap, topics)


def _print(reports: list[PartitionReport], show_all: bool) -> None:
    for report in reports:
        if report.findings or show_all:
            click.echo(f"{report.path}: {'damaged' if report.findings else 'OK'}, {_amount([report])}")
        for finding in report.findings:
            where = ""
            if finding.position >= 0:
                where = f"{finding.size} bytes from position {finding.position}: "
            click.echo(f"  {finding.file}: {where}{finding.message}")
    intact = sum(not report.findings for report in reports)
    click.echo(f"{intact} of {len(reports)} partitions OK; {_amount(reports)} verified")


def _amount(reports: list[PartitionReport]) -> str:
    records, batches = sum(each.records for each in reports), sum(each.batches for each in reports)
    return f"{records} records in {batches} batches, {human_bytes(sum(each.bytes for each in reports))}"


def report_json(report: PartitionReport) -> dict[str, object]:
    return {
        "path": report.path,
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "bytes": report.bytes,
        "findings": [
            {
                "kind": finding.kind.value,
                "file": finding.file,
                "message": finding.message,
                "position": finding.position,
                "size": finding.size,
                "offset": finding.offset,
            }
            for finding in report.findings
        ],
    }

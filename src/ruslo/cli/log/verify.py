"""``ruslo log verify`` and ``ruslo log repair``: bit rot found, and what can be put right put right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.terminal.output import hint, human_bytes, print_json
from ruslo.cli.terminal.progress import Progress

if TYPE_CHECKING:
    from ruslo.storage.verify import Finding, PartitionReport

_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(
    epilog=examples(
        "ruslo log verify data",
        "ruslo log verify data/orders-0 -o json",
        "ruslo log verify --topic orders -b broker1:9092",
    )
)
@click.argument("directories", nargs=-1, type=_DIRECTORY, metavar="[DIR]...")
@click.option("--topic", "topics", multiple=True, help="Read a topic from its brokers instead. Repeatable.")
@click.option("--all", "show_all", is_flag=True, help="Show every partition, not only damaged ones.")
@bootstrap_option
@output_option
def verify(
    directories: tuple[Path, ...], topics: tuple[str, ...], show_all: bool, bootstrap: str, output: str
) -> None:
    """Check every batch of log directories, or of topics that are being served.

    In a DIR (a log directory, or one partition's): checksums, order, counts, and that indexes, producer
    snapshots and checkpoints agree with the log. Nothing is changed; a running broker may be using it, and
    then what is just being written can show as damaged at the very end. Of a --topic: what its leaders send.
    Sound partitions are only counted, unless --all. Exits 1 if anything is damaged.
    """
    if bool(directories) == bool(topics):
        raise click.UsageError("Give log directories, or --topic to check what brokers serve.")
    reports = _verify_topics(bootstrap, topics) if topics else _verify_directories(directories)
    if output == "json":
        print_json({"partitions": [_as_json(report) for report in reports]})
    else:
        _print(reports, show_all)
    damaged = sum(bool(report.findings) for report in reports)
    if damaged:
        if directories:
            hint(f"To see what can be done: ruslo log repair {' '.join(map(str, directories))}")
        raise click.ClickException(f"{damaged} of {len(reports)} partitions are damaged")


@click.command(
    epilog=examples("ruslo log repair data", "ruslo log repair data/orders-0 --execute --keep damaged")
)
@click.argument("directories", nargs=-1, required=True, type=_DIRECTORY, metavar="DIR...")
@click.option("--execute", is_flag=True, help="Do it; without this nothing is changed.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Copy files that lose records there first.",
)
@output_option
def repair(directories: tuple[Path, ...], execute: bool, keep: Path | None, output: str) -> None:
    """Leave damaged batches out of logs and make indexes and other helpers anew.

    What a damaged batch held is lost; offsets stay, so that a gap remains. If another replica has the
    records, deleting the partition's directory instead lets the broker fetch them again. The broker must be
    stopped. Without --execute it only says what it would do. Exits 1 if something could not be repaired.
    """
    from ruslo.model.errors import StorageError
    from ruslo.storage.dir_lock import DirLock
    from ruslo.storage.disk import LocalDisk
    from ruslo.storage.repair import repair_partition

    locks = []
    failures: dict[str, str] = {}
    try:
        if execute:
            # A log directory is locked as a whole, also when one partition of it is named.
            for root in dict.fromkeys(_log_directory(path) for path in directories):
                locks.append(DirLock(LocalDisk(root)))
        reports = [report for report in _verify_directories(directories) if report.findings]
        for report in reports if execute else ():
            try:
                disk = LocalDisk(os.path.dirname(report.path))
                repair_partition(disk, report, None if keep is None else str(keep))
            except StorageError as error:
                # What has become of the others is to be told all the same.
                failures[report.path] = str(error)
    finally:
        for lock in locks:
            lock.release(remove=True)
    if output == "json":
        partitions = [{**_as_json(each), "failure": failures.get(each.path)} for each in reports]
        print_json({"executed": execute, "partitions": partitions})
    else:
        _print_repair(reports, execute, failures)
    if failures:
        raise click.ClickException(f"{len(failures)} of {len(reports)} damaged partitions are not repaired")


def _print_repair(reports: list[PartitionReport], execute: bool, failures: dict[str, str]) -> None:
    verb = "cut" if execute else "would be cut"
    for report in reports:
        if report.path in failures:
            click.echo(f"{report.path}: not repaired: {failures[report.path]}")
            continue
        for finding in report.findings:
            click.echo(f"{finding.file}: {_remedy(finding, verb, execute)}: {finding.message}")
    if not reports:
        click.echo("nothing to repair")
    elif not execute:
        click.echo("nothing was changed; add --execute to do it")


def _log_directory(path: Path) -> str:
    from ruslo.storage.disk import LocalDisk
    from ruslo.storage.verify import partition_directories

    resolved = str(path.resolve())
    is_partition = partition_directories(LocalDisk(resolved), resolved) == [resolved]
    return os.path.dirname(resolved) if is_partition else resolved


def _verify_directories(directories: tuple[Path, ...]) -> list[PartitionReport]:
    from ruslo.storage.disk import LocalDisk
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
                progress.tick(lambda: f"{human_bytes(done)} checked, now {path}", lambda: done / total)

            reports.append(PartitionCheck(LocalDisk(root), path, tick).run())
    progress.clear()
    return reports


def _verify_topics(bootstrap: str, topics: tuple[str, ...]) -> list[PartitionReport]:
    from ruslo.cli.log.verify_topic import verify_topics

    return verify_topics(bootstrap, topics)


def _remedy(finding: Finding, verb: str, execute: bool) -> str:
    from ruslo.storage.verify import Kind

    if finding.kind is Kind.RECORDS:
        return f"from offset {finding.offset} on {finding.size} bytes {verb}"
    if finding.kind is Kind.INDEX:
        return "made anew" if execute else "would be made anew"
    return "cannot be repaired"


def _print(reports: list[PartitionReport], show_all: bool) -> None:
    for report in reports:
        if report.findings or show_all:
            click.echo(f"{report.path}: {'damaged' if report.findings else 'sound'}, {_amount([report])}")
        for finding in report.findings:
            where = ""
            if finding.position >= 0:
                where = f"{finding.size} bytes from position {finding.position} on: "
            click.echo(f"  {finding.file}: {where}{finding.message}")
    sound = sum(not report.findings for report in reports)
    click.echo(f"{sound} of {len(reports)} partitions sound; {_amount(reports)} checked")


def _amount(reports: list[PartitionReport]) -> str:
    records, batches = sum(each.records for each in reports), sum(each.batches for each in reports)
    return f"{records} records in {batches} batches, {human_bytes(sum(each.bytes for each in reports))}"


def _as_json(report: PartitionReport) -> dict[str, object]:
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

"""``ruslo log repair``: drop damaged batches and rebuild indexes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import examples, output_option
from ruslo.cli.log.verify import report_json, verify_directories
from ruslo.cli.terminal.output import print_json

if TYPE_CHECKING:
    from ruslo.storage.verify import Finding, PartitionReport


_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(
    epilog=examples("ruslo log repair data", "ruslo log repair data/orders-0 --execute --keep damaged")
)
@click.argument("directories", nargs=-1, required=True, type=_DIRECTORY, metavar="DIR...")
@click.option("--execute", is_flag=True, help="Repair the logs (default: only show what would be done).")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Copy segments that lose records to this folder first.",
)
@output_option
def repair(directories: tuple[Path, ...], execute: bool, keep: Path | None, output: str) -> None:
    """Drop damaged batches from logs, and rebuild indexes and snapshots.

    The records of a damaged batch are lost; other records keep their offsets. If another replica has the
    records, delete the directory of the partition instead: the broker then fetches them again.

    Stop the broker first. Exit code 1: a partition could not be repaired.
    """
    from ruslo.model.errors import StorageError
    from ruslo.storage.dir_lock import DirLock
    from ruslo.storage.local_disk import LocalDisk
    from ruslo.storage.repair import repair_partition

    locks = []
    failures: dict[str, str] = {}
    try:
        if execute:
            # The lock is on the log directory, even if only one partition is repaired.
            for root in dict.fromkeys(_log_directory(path) for path in directories):
                locks.append(DirLock(LocalDisk(root)))
        reports = [report for report in verify_directories(directories) if report.findings]
        for report in reports if execute else ():
            try:
                disk = LocalDisk(os.path.dirname(report.path))
                repair_partition(disk, report, None if keep is None else str(keep))
            except StorageError as error:
                # Report the other partitions as well.
                failures[report.path] = str(error)
    finally:
        for lock in locks:
            lock.release(remove=True)
    if output == "json":
        partitions = [{**report_json(each), "failure": failures.get(each.path)} for each in reports]
        print_json({"executed": execute, "partitions": partitions})
    else:
        _print_repair(reports, execute, failures)
    if failures:
        raise click.ClickException(f"{len(failures)} of {len(reports)} damaged partitions were not repaired")


def _print_repair(reports: list[PartitionReport], execute: bool, failures: dict[str, str]) -> None:
    verb = "dropped" if execute else "would be dropped"
    for report in reports:
        if report.path in failures:
            click.echo(f"{report.path}: not repaired: {failures[report.path]}")
            continue
        for finding in report.findings:
            click.echo(f"{finding.file}: {_remedy(finding, verb, execute)}: {finding.message}")
    if not reports:
        click.echo("nothing to repair")
    elif not execute:
        click.echo("nothing was changed; add --execute to repair")


def _log_directory(path: Path) -> str:
    from ruslo.storage.local_disk import LocalDisk
    from ruslo.storage.verify import partition_directories

    resolved = str(path.resolve())
    is_partition = partition_directories(LocalDisk(resolved), resolved) == [resolved]
    return os.path.dirname(resolved) if is_partition else resolved


def _remedy(finding: Finding, verb: str, execute: bool) -> str:
    from ruslo.storage.verify import Kind

    if finding.kind is Kind.RECORDS:
        return f"{finding.size} bytes from offset {finding.offset} {verb}"
    if finding.kind is Kind.INDEX:
        return "rebuilt" if execute else "would be rebuilt"
    return "cannot be repaired"

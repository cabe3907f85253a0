"""Results of ``topic delete`` and ``group delete``."""

from __future__ import annotations

from collections.abc import Mapping

import click

from ruslo.cli.terminal.errors import fail_for
from ruslo.cli.terminal.output import print_json
from ruslo.model.errors import ErrorCode, KafkaError


def print_deletions(
    results: Mapping[str, KafkaError | None], name_field: str, absent_code: ErrorCode | None, output: str
) -> None:
    """Print the status of each name, and exit with 1 if one failed.

    ``absent_code`` is the error of a name that does not exist, if that counts as success (--if-exists).
    """
    failed = {name: error for name, error in results.items() if error and error.code != absent_code}
    status = {
        name: "deleted" if error is None else "failed" if name in failed else "absent"
        for name, error in results.items()
    }
    if output == "json":
        print_json(
            [
                {
                    name_field: name,
                    "status": status[name],
                    "error": failed[name].code.name if name in failed else None,
                }
                for name in results
            ]
        )
    else:
        for name, word in status.items():
            if word != "failed":
                click.echo(f"{word} {name}")
    fail_for(failed)

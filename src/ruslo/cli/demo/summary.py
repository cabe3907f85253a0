"""The summary of the demo: events, results, and whether they match."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import click

from ruslo.cli.demo.events import TOPICS
from ruslo.cli.demo.ledger import Verdict
from ruslo.cli.demo.run import DemoRun
from ruslo.cli.terminal.output import print_fields, print_json, print_table


class Summary:
    def __init__(self, run: DemoRun, elapsed_s: float, verdict: Verdict | None) -> None:
        """``verdict`` is None without Spark."""
        self._run = run
        self._elapsed_s = elapsed_s
        self._verdict = verdict
        self._topics = [
            (topic, sum(c.acked for c in counts), sum(c.read for c in counts))
            for topic in TOPICS
            if (counts := [count for p, count in run.partitions.items() if p.topic == topic])
        ]

    def print(self, output: str) -> None:
        """Print the summary; raise ClickException (exit code 1) if something was lost or duplicated."""
        if output == "json":
            print_json(self.as_json())
        else:
            self._print_text()
        problems = list(self.problems())
        if problems:
            raise click.ClickException("; ".join(problems))
        if output == "text":
            click.echo("Nothing was lost or duplicated.")

    def problems(self) -> Iterator[str]:
        run, verdict = self._run, self._verdict
        if run.failed:
            yield f"{len(run.failed)} events failed; the first error: {run.failed[0]}"
        elif not run.complete:
            yield f"{run.acked} events were acknowledged, but {run.read} were read back"
        if verdict is None:
            return
        if verdict.missing:
            yield f"{verdict.missing} paid orders have no receipt"
        if verdict.repeated:
            yield f"{verdict.repeated} receipts are duplicates"
        if verdict.unknown:
            yield f"{verdict.unknown} receipts belong to orders that were not acknowledged or not paid"
        if not verdict.totals_right:
            yield "the totals of the cities differ from the acknowledged and paid orders"

    def as_json(self) -> dict[str, object]:
        run, ledger, verdict = self._run, self._run.ledger, self._verdict
        fields: dict[str, object] = {
            "seconds": round(self._elapsed_s, 1),
            "sent": run.sent,
            "acked": run.acked,
            "read": run.read,
            "failed": len(run.failed),
            "complete": run.complete,
            "topics": [{"topic": topic, "acked": acked, "read": read} for topic, acked, read in self._topics],
            "end_to_end_ms": run.end_to_end.as_json(),
        }
        if verdict is None:
            return fields | {"spark": None}
        expected = {"orders": ledger.orders, "payments": ledger.payments, "receipts_due": ledger.receipts_due}
        return fields | {"spark": {**expected, **asdict(verdict), "exactly_once": verdict.is_right}}

    def _print_text(self) -> None:
        run, ledger, verdict = self._run, self._run.ledger, self._verdict
        print_table(["TOPIC", "ACKED", "READ-BACK"], self._topics)
        click.echo()
        if verdict is not None:
            rows = [
                (city, total.orders, total.declined, f"{total.paid_cents / 100:,.2f}")
                for city, total in sorted(ledger.totals.items())
            ]
            print_table(["CITY", "ORDERS", "DECLINED", "PAID"], rows)
            click.echo()
        print_fields([("Seconds", f"{self._elapsed_s:.1f}"), ("End to end", run.end_to_end.as_text())])
        click.echo()
        click.echo(f"Events in:    {run.acked:,} acknowledged, {run.read:,} read back.")
        if verdict is not None:
            click.echo(
                f"Results out:  {ledger.orders:,} orders and {ledger.payments:,} payments gave "
                f"{verdict.receipts:,} receipts; {ledger.receipts_due:,} were expected."
            )
            click.echo(
                f"              {verdict.missing:,} are missing, {verdict.repeated:,} are duplicates, the "
                f"totals of {len(ledger.totals)} cities are {'right' if verdict.totals_right else 'wrong'}."
            )

"""Pipelines that are running or have run on this machine."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import FormResult, console_of, form_of
from ruslo.console.formats import ago
from ruslo.console.forms import FormError
from ruslo.console.render import link
from ruslo.runs.folder import RunFolder
from ruslo.runs.report import RunReport, known_reports

_SHOWN_MAX = 100


async def pipelines(request: Request) -> Response:
    console, reports = console_of(request), known_reports()
    return console.page(
        request,
        "pipelines.html",
        reports=[(report, _is_here(report, console.settings.bootstrap)) for report in reports[:_SHOWN_MAX]],
        left=max(0, len(reports) - _SHOWN_MAX),
    )


def _is_here(report: RunReport, bootstrap: str) -> bool:
    """Whether the pipeline uses the console's cluster, judged by the bootstrap addresses."""
    if report.bootstrap is None:
        return True
    return not set(report.bootstrap.split(",")).isdisjoint(bootstrap.split(","))


async def stop(request: Request) -> Response:
    """Request that a pipeline stops after its current batch, as ``ruslo pipeline stop`` does."""
    console, form = console_of(request), form_of(request)
    wanted = request.query_params.get("folder", "")
    result = FormResult()
    with result:
        report = _running(wanted)
        if request.method == "POST" and is_confirmed(form):
            RunFolder(report.folder).request_stop()
            return console.done("/pipelines", f"{report.pipeline} stops after its current batch.")
        result.preview = Preview(
            title=f"Stop pipeline {report.pipeline}",
            facts=[
                ("File", report.file),
                ("Started", ago(None if report.started_at is None else report.started_at * 1000)),
            ],
            warning="The pipeline stops after its current batch. The next run continues from there.",
            button="Stop the pipeline",
            form=form,
            back="/pipelines",
        )
    return console.form_page(
        request, "pipeline_confirm.html", result, action=link("/pipelines/stop", folder=wanted)
    )


def _running(folder: str) -> RunReport:
    """A registered pipeline: the query must not select an arbitrary folder of the machine."""
    for report in known_reports():
        if report.folder == Path(folder) and report.running:
            return report
    raise FormError("This pipeline is not running.")

"""Pipelines that run, or ran, on this machine."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from ruslo.console.confirming import Preview, is_confirmed
from ruslo.console.console import console_of, form_of
from ruslo.console.formats import ago
from ruslo.console.forms import FormMistake
from ruslo.console.problems import reason
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
    """Whether it works on the cluster of this console: as far as addresses tell, which may be only some."""
    if report.bootstrap is None:
        return True
    return not set(report.bootstrap.split(",")).isdisjoint(bootstrap.split(","))


async def stop(request: Request) -> Response:
    """Ask a pipeline to stop when its batch is done, as ``ruslo pipeline stop`` does."""
    console, form = console_of(request), form_of(request)
    wanted = request.query_params.get("folder", "")
    mistake, preview = None, None
    try:
        report = _running(wanted)
        if request.method == "POST" and is_confirmed(form):
            RunFolder(report.folder).ask_to_stop()
            return console.done("/pipelines", f"{report.pipeline} stops when its batch is done.")
        preview = Preview(
            title=f"Stop pipeline {report.pipeline}",
            facts=[
                ("File", report.file),
                ("Started", ago(None if report.started_at is None else report.started_at * 1000)),
            ],
            warning="It stops when its batch is done, and goes on from there when it is run again.",
            button="Stop the pipeline",
            form=form,
            back="/pipelines",
        )
    except FormMistake as error:
        mistake = reason(error)
    return console.page(
        request,
        "pipeline_confirm.html",
        status=422 if mistake else 200,
        action=link("/pipelines/stop", folder=wanted),
        preview=preview,
        mistake=mistake,
    )


def _running(folder: str) -> RunReport:
    """Only what is registered: the address of a page must not name any folder of the machine."""
    for report in known_reports():
        if report.folder == Path(folder) and report.running:
            return report
    raise FormMistake("This pipeline does not run.")

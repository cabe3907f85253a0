"""Configs of a topic or a broker: values, sources, and a form to change them."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.configs import Change, ConfigEntry, ConfigSource, Operation, Resource
from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import FormResult, console_of, form_of
from ruslo.console.formats import with_unit
from ruslo.console.forms import Form, FormError

_SOURCES = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "broker, dynamic",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers, dynamic",
    ConfigSource.STATIC_BROKER: "properties file",
    ConfigSource.DEFAULT: "default",
    ConfigSource.GROUP: "group",
}


class _Target(NamedTuple):
    resource: Resource
    override: ConfigSource
    """The source of values that are set on this resource."""
    title: str
    path: str
    topic: str | None = None
    node_id: int | None = None


async def topic_config(request: Request) -> Response:
    name = str(request.path_params["topic"])
    return await _config(
        request,
        _Target(Resource.topic(name), ConfigSource.TOPIC, f"topic {name}", f"/topics/{name}/config", name),
    )


async def broker_config(request: Request) -> Response:
    node: int = request.path_params["node"]
    return await _config(
        request,
        _Target(
            Resource.broker(node),
            ConfigSource.DYNAMIC_BROKER,
            f"broker {node}",
            f"/brokers/{node}/config",
            node_id=node,
        ),
    )


async def _config(request: Request, target: _Target) -> Response:
    console, form = console_of(request), form_of(request)
    query = Form.of_query(request.query_params)
    entries = await console.admin.configs.describe(target.resource, documentation=True, inherited=True)
    result = FormResult()
    if request.method == "POST":
        with result:
            entry, change = _change(form, entries)
            await console.admin.configs.alter(target.resource, {entry.name: change}, validate_only=True)
            if is_confirmed(form):
                await console.admin.configs.alter(target.resource, {entry.name: change})
                what = (
                    "was reset to the inherited value" if change.operation is Operation.DELETE else "was set"
                )
                return console.done(target.path, f"{entry.name} of {target.title} {what}.")
            result.preview = _preview(form, target, entry, change)
    search = query.text("q").lower()
    only_set = query.flag("set")
    return console.form_page(
        request,
        "config.html",
        result,
        target=target,
        topic=target.topic,
        entries=[
            entry
            for entry in entries
            if search in entry.name.lower() and (not only_set or entry.source == target.override)
        ],
        override=target.override,
        sources=_SOURCES,
        chosen=next(
            (entry for entry in entries if entry.name == (form.text("name") or query.text("name"))), None
        ),
        search=search,
        only_set=only_set,
        form=form,
    )


def _change(form: Form, entries: list[ConfigEntry]) -> tuple[ConfigEntry, Change]:
    name = form.text("name")
    entry = next((entry for entry in entries if entry.name == name), None)
    if entry is None:
        raise FormError(f"The config {name!r} does not exist.")
    if entry.read_only:
        raise FormError(
            f"{name} is read-only. Change it in the broker's properties file and restart the broker."
        )
    if form.flag("inherit"):
        return entry, Change(Operation.DELETE)
    return entry, Change(Operation.SET, form.text("value"))


def _preview(form: Form, target: _Target, entry: ConfigEntry, change: Change) -> Preview:
    now = "(hidden)" if entry.sensitive else with_unit(entry.value, entry.name)
    then = with_unit(change.value, entry.name)
    if change.operation is Operation.DELETE:
        then = "the brokers' value" if entry.inherited is None else with_unit(entry.inherited, entry.name)
        then = f"{then}, inherited"
    return Preview(
        title=f"Change {entry.name} of {target.title}",
        facts=[
            ("Now", f"{now}, from: {_SOURCES.get(entry.source, 'unknown')}"),
            ("New", "(hidden)" if entry.sensitive and change.value else then),
        ],
        button="Change the config",
        form=form,
    )

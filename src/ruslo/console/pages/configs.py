"""Settings of a topic or a broker: what is in force, where it comes from, and a form to change it."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.configs import Change, ConfigEntry, ConfigSource, Operation, Resource
from ruslo.console.confirming import Preview, is_confirmed
from ruslo.console.console import console_of, form_of
from ruslo.console.formats import with_unit
from ruslo.console.forms import Form, FormMistake
from ruslo.console.problems import reason
from ruslo.model.errors import KafkaError

_SOURCES = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "broker, set while running",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers, set while running",
    ConfigSource.STATIC_BROKER: "broker's file",
    ConfigSource.DEFAULT: "default",
    ConfigSource.GROUP: "group",
}


class _Place(NamedTuple):
    resource: Resource
    override: ConfigSource
    """The source of what is set right here."""
    title: str
    path: str
    topic: str | None = None
    node_id: int | None = None


async def topic_config(request: Request) -> Response:
    name = str(request.path_params["topic"])
    return await _config(
        request,
        _Place(Resource.topic(name), ConfigSource.TOPIC, f"topic {name}", f"/topics/{name}/config", name),
    )


async def broker_config(request: Request) -> Response:
    node: int = request.path_params["node"]
    return await _config(
        request,
        _Place(
            Resource.broker(node),
            ConfigSource.DYNAMIC_BROKER,
            f"broker {node}",
            f"/brokers/{node}/config",
            node_id=node,
        ),
    )


async def _config(request: Request, place: _Place) -> Response:
    console, form = console_of(request), form_of(request)
    query = Form.of_query(request.query_params)
    entries = await console.admin.configs.describe(place.resource, documentation=True, inherited=True)
    preview, mistake = None, None
    if request.method == "POST":
        try:
            entry, change = _change(form, entries)
            await console.admin.configs.alter(place.resource, {entry.name: change}, validate_only=True)
            if is_confirmed(form):
                await console.admin.configs.alter(place.resource, {entry.name: change})
                what = "is back at what it inherits" if change.operation is Operation.DELETE else "was set"
                return console.done(place.path, f"{entry.name} of {place.title} {what}.")
            preview = _preview(form, place, entry, change)
        except (FormMistake, KafkaError) as error:
            mistake = reason(error)
    search = query.text("q").lower()
    only_set = query.flag("set")
    return console.page(
        request,
        "config.html",
        status=422 if mistake else 200,
        place=place,
        topic=place.topic,
        entries=[
            entry
            for entry in entries
            if search in entry.name.lower() and (not only_set or entry.source == place.override)
        ],
        override=place.override,
        sources=_SOURCES,
        chosen=next(
            (entry for entry in entries if entry.name == (form.text("name") or query.text("name"))), None
        ),
        search=search,
        only_set=only_set,
        form=form,
        preview=preview,
        mistake=mistake,
    )


def _change(form: Form, entries: list[ConfigEntry]) -> tuple[ConfigEntry, Change]:
    name = form.text("name")
    entry = next((entry for entry in entries if entry.name == name), None)
    if entry is None:
        raise FormMistake(f"There is no setting {name!r}.")
    if entry.read_only:
        raise FormMistake(f"{name} can be changed in the broker's file only.")
    if form.flag("inherit"):
        return entry, Change(Operation.DELETE)
    return entry, Change(Operation.SET, form.text("value"))


def _preview(form: Form, place: _Place, entry: ConfigEntry, change: Change) -> Preview:
    now = "(hidden)" if entry.sensitive else with_unit(entry.value, entry.name)
    then = with_unit(change.value, entry.name)
    if change.operation is Operation.DELETE:
        then = "what the brokers say" if entry.inherited is None else with_unit(entry.inherited, entry.name)
        then = f"{then}, inherited"
    return Preview(
        title=f"Change {entry.name} of {place.title}",
        facts=[
            ("Now", f"{now}, from: {_SOURCES.get(entry.source, 'unknown')}"),
            ("Then", "(hidden)" if entry.sensitive and change.value else then),
        ],
        button="Change it",
        form=form,
    )

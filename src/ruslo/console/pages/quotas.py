"""Client quotas: the list, and forms to set and remove them."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.views.quota_text import (
    ENTITY_TYPES,
    IP_KEYS,
    KEYS,
    check_entity,
    check_key,
    entity_text,
    parse_limit,
)
from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import Console, FormResult, console_of, form_of
from ruslo.console.formats import count, size
from ruslo.console.forms import Form, FormError, paged
from ruslo.console.render import link
from ruslo.console.security_lists import listed_or_reason

_PER_PAGE = 100
PATH = "/security/quotas"
_FIELDS = [f"{prefix}{kind.replace('-', '_')}" for kind in ENTITY_TYPES for prefix in ("", "default_")]
_UNITS = {
    "producer_byte_rate": "bytes/s per broker",
    "consumer_byte_rate": "bytes/s per broker",
    "request_percentage": "percent of a thread",
    "controller_mutation_rate": "partitions/s",
    "connection_creation_rate": "connections/s per broker",
}


def limit_text(key: str, value: float | None) -> str:
    if value is None:
        return "none"
    if key.endswith("_byte_rate"):
        return f"{size(value)}/s" if value >= 1024 else f"{_number(value)} B/s"
    return f"{_number(value)} %" if key == "request_percentage" else f"{_number(value)}/s"


def _number(value: float) -> str:
    return count(value) if value == int(value) else f"{value:g}"


async def quotas(request: Request) -> Response:
    console, query = console_of(request), Form.of_query(request.query_params)
    search = query.text("q")
    found = await listed_or_reason(console.admin.quotas.list(), "quotas", "describe-configs")
    rows = [
        (entity_text(each.entity), key, limit_text(key, value), _fields(each.entity))
        for each in found.rows
        for key, value in each.values.items()
        if search.lower() in entity_text(each.entity).lower()
    ]
    return console.page(
        request,
        "quotas.html",
        status=found.status,
        shown=paged(rows, query, _PER_PAGE),
        search=search,
        unavailable=found.reason,
    )


def _fields(entity: Mapping[str, str | None]) -> dict[str, str]:
    """The fields of a form, or of a URL, that stand for the entity."""
    return {
        f"default_{kind.replace('-', '_')}" if name is None else kind.replace("-", "_"): name or "1"
        for kind, name in entity.items()
    }


def _entity(form: Form) -> dict[str, str | None]:
    entity: dict[str, str | None] = {}
    for kind in ENTITY_TYPES:
        field = kind.replace("-", "_")
        name, default = form.text(field), form.flag(f"default_{field}")
        if name and default:
            raise FormError(f"A {kind} and the default {kind} exclude each other. Choose one.")
        if name or default:
            entity[kind] = name or None
    try:
        check_entity(entity)
    except ValueError as error:
        raise FormError(f"{error}.") from None
    return entity


async def _limits(console: Console, entity: Mapping[str, str | None]) -> dict[str, float]:
    """The quotas of exactly this entity."""
    found = await console.admin.quotas.list(entity, strict=True)
    return {key: value for each in found for key, value in each.values.items()}


async def set_quota(request: Request) -> Response:
    console, form = console_of(request), form_of(request)
    result = FormResult()
    if request.method == "POST":
        with result:
            entity, limits = _entity(form), _new_limits(form)
            current = await _limits(console, entity)
            if is_confirmed(form):
                await console.admin.quotas.alter(entity, limits)
                return console.done(PATH, f"The quotas of {entity_text(entity)} were set.")
            result.preview = Preview(
                title=f"Set quotas of {entity_text(entity)}",
                facts=(),
                headings=("Quota", "Now", "New"),
                rows=[
                    (key, limit_text(key, current.get(key)), limit_text(key, value))
                    for key, value in limits.items()
                ],
                button="Set the quotas",
                form=form,
            )
    return console.form_page(
        request,
        "quota_set.html",
        result,
        form=form if request.method == "POST" else Form.of_query(request.query_params),
        keys=[(key, _UNITS[key]) for key in (*KEYS, *IP_KEYS)],
    )


def _new_limits(form: Form) -> dict[str, float | None]:
    entity = _entity(form)
    limits: dict[str, float | None] = {}
    try:
        for key in (*KEYS, *IP_KEYS):
            text = form.text(key).replace(" ", "").replace("_", "")
            if text:
                check_key(entity, key)
                limits[key] = parse_limit(key, text)
    except ValueError as error:
        raise FormError(f"{error}.") from None
    if not limits:
        raise FormError("Enter at least one quota.")
    return limits


async def remove(request: Request) -> Response:
    console, form = console_of(request), form_of(request)
    query = Form.of_query(request.query_params)
    key = query.text("key")
    result = FormResult()
    with result:
        entity = _entity(query)
        current = await _limits(console, entity)
        if key not in current:
            raise FormError(f"The quota {key!r} of {entity_text(entity)} does not exist.")
        if request.method == "POST" and is_confirmed(form):
            await console.admin.quotas.alter(entity, {key: None})
            return console.done(PATH, f"{key} of {entity_text(entity)} was removed.")
        result.preview = Preview(
            title=f"Remove {key} of {entity_text(entity)}",
            facts=[("Now", limit_text(key, current[key]))],
            warning="The next more general quota applies then; without one there is no limit.",
            button="Remove the quota",
            form=form,
            back=PATH,
        )
    return console.form_page(
        request,
        "security_confirm.html",
        result,
        action=link(f"{PATH}/remove", key=key, **{name: query.text(name) for name in _FIELDS}),
        parent=(PATH, "Quotas"),
    )

"""Forms to create and delete topics, add partitions, and delete all records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.topics import HIGH_WATERMARK, NewTopic
from ruslo.client.views.topic_view import TopicView, describe_topic
from ruslo.client.wire.coordinators import value_of
from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import Console, FormResult, console_of, form_of
from ruslo.console.formats import count, plural, size, with_unit
from ruslo.console.forms import Form, FormError, parse_configs
from ruslo.model.topics import TopicPartition, topic_name_problem

_PARTITIONS_MAX = 10_000
_GROUPS_SHOWN_MAX = 5


async def create(request: Request) -> Response:
    console, form = console_of(request), form_of(request)
    result = FormResult()
    if request.method == "POST":
        with result:
            new = _new_topic(form)
            checked = value_of((await console.admin.topics.create([new], validate_only=True))[new.name])
            if is_confirmed(form):
                value_of((await console.admin.topics.create([new]))[new.name])
                await console.sampler.fresh(0)
                return console.done(f"/topics/{new.name}", f"Topic {new.name} was created.")
            result.preview = Preview(
                title=f"Create topic {new.name}",
                facts=[
                    # Brokers before version 5 of CreateTopics do not return their defaults.
                    ("Partitions", checked.partitions if checked.partitions > 0 else "the brokers' default"),
                    (
                        "Replicas",
                        checked.replication_factor
                        if checked.replication_factor > 0
                        else "the brokers' default",
                    ),
                    *((key, with_unit(value, key)) for key, value in new.configs.items()),
                ],
                button="Create the topic",
                form=form,
            )
    return console.form_page(request, "topic_create.html", result, form=form)


def _new_topic(form: Form) -> NewTopic:
    name = form.text("name")
    problem = topic_name_problem(name)
    if problem is not None:
        raise FormError(f"Name: {problem}.")
    return NewTopic(
        name,
        form.number("partitions", "Partitions", least=1, most=_PARTITIONS_MAX) or -1,
        form.number("replicas", "Replicas", least=1, most=100) or -1,
        parse_configs(form.raw("configs")),
    )


async def add_partitions(request: Request) -> Response:
    console, form, name = console_of(request), form_of(request), str(request.path_params["topic"])
    view = await describe_topic(console.admin, name)
    now = len(view.partitions)
    result = FormResult()
    if request.method == "POST":
        with result:
            total = form.number("total", "Partitions", least=now + 1, most=_PARTITIONS_MAX)
            if total is None:
                raise FormError("Partitions: enter the new number of partitions.")
            await console.admin.topics.add_partitions(name, total, validate_only=True)
            if is_confirmed(form):
                await console.admin.topics.add_partitions(name, total)
                return console.done(f"/topics/{name}", f"{name} has {total} partitions now.")
            result.preview = Preview(
                title=f"Add {plural(total - now, 'partition')} to {name}",
                facts=[("Current", now), ("New", total)],
                warning="Keys map to other partitions: later records of a key may go to another partition "
                "than earlier ones. Partitions cannot be removed.",
                button=f"Add {plural(total - now, 'partition')}",
                form=form,
            )
    return console.form_page(request, "topic_partitions.html", result, topic=name, now=now, form=form)


async def empty(request: Request) -> Response:
    """Delete all current records; the topic and its offsets remain."""
    console, name = console_of(request), str(request.path_params["topic"])

    async def delete_records(view: TopicView) -> Response:
        partitions = [TopicPartition(name, each.partition) for each in view.partitions]
        await console.admin.topics.delete_records(dict.fromkeys(partitions, HIGH_WATERMARK))
        return console.done(f"/topics/{name}", f"All records of {name} were deleted.")

    warning = "The records cannot be restored. Groups continue at the end of the topic."
    return await _destroy(
        request, f"Delete all records of {name}", warning, "Delete all records", delete_records
    )


async def delete(request: Request) -> Response:
    console, name = console_of(request), str(request.path_params["topic"])

    async def delete_topic(view: TopicView) -> Response:
        value_of((await console.admin.topics.delete([name]))[name])
        await console.sampler.fresh(0)
        return console.done("/topics", f"Topic {name} was deleted.")

    warning = "The topic and its records cannot be restored."
    return await _destroy(request, f"Delete topic {name}", warning, "Delete the topic", delete_topic)


async def _destroy(
    request: Request,
    title: str,
    warning: str,
    button: str,
    execute: Callable[[TopicView], Awaitable[Response]],
) -> Response:
    """An irreversible change, which the user confirms by typing the topic's name."""
    console, form, name = console_of(request), form_of(request), str(request.path_params["topic"])
    view = await describe_topic(console.admin, name)
    result = FormResult()
    with result:
        if request.method == "POST" and is_confirmed(form, name):
            return await execute(view)
    facts: list[tuple[str, object]] = [
        ("Partitions", len(view.partitions)),
        ("Records", f"at most {count(view.record_count)}"),
        ("Size", size(view.size_bytes)),
        ("Read by", await _readers(console, name)),
    ]
    if view.internal:
        facts.append(("Internal", "yes, the cluster needs it"))
    back = f"/topics/{name}"
    result.preview = Preview(title, facts, button, form, warning, must_type=name, back=back)
    return console.form_page(request, "topic_confirm.html", result, topic=name)


async def _readers(console: Console, topic: str) -> str:
    """The groups that read the topic."""
    names = [reader.group_id for reader in (await console.lags.survey()).readers(topic)]
    if not names:
        return "no group"
    named, others = names[:_GROUPS_SHOWN_MAX], len(names) - _GROUPS_SHOWN_MAX
    listing = ", ".join(named) + (f" and {others} more" if others > 0 else "")
    return f"{'group' if len(names) == 1 else 'groups'} {listing}"

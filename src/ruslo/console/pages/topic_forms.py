"""Forms that make, grow, empty and delete topics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.topics import HIGH_WATERMARK, NewTopic
from ruslo.client.views.topic_view import TopicView, describe_topic
from ruslo.client.wire.coordinators import value_of
from ruslo.console.confirming import Preview, is_confirmed
from ruslo.console.console import Console, console_of, form_of
from ruslo.console.formats import count, plural, size, with_unit
from ruslo.console.forms import Form, FormMistake, settings_of
from ruslo.console.problems import reason
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition, topic_name_problem

_PARTITIONS_MAX = 10_000
_READERS_NAMED = 5


async def create(request: Request) -> Response:
    console, form = console_of(request), form_of(request)
    preview, mistake = None, None
    if request.method == "POST":
        try:
            new = _new_topic(form)
            checked = value_of((await console.admin.topics.create([new], validate_only=True))[new.name])
            if is_confirmed(form):
                value_of((await console.admin.topics.create([new]))[new.name])
                await console.sampler.fresh(0)
                return console.done(f"/topics/{new.name}", f"Topic {new.name} was created.")
            preview = Preview(
                title=f"Create topic {new.name}",
                facts=[
                    # Brokers before version 5 of CreateTopics do not tell their defaults.
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
        except (FormMistake, KafkaError) as error:
            mistake = reason(error)
    return console.page(
        request,
        "topic_create.html",
        status=422 if mistake else 200,
        form=form,
        preview=preview,
        mistake=mistake,
    )


def _new_topic(form: Form) -> NewTopic:
    name = form.text("name")
    problem = topic_name_problem(name)
    if problem is not None:
        raise FormMistake(f"Name: {problem}.")
    return NewTopic(
        name,
        form.number("partitions", "Partitions", least=1, most=_PARTITIONS_MAX) or -1,
        form.number("replicas", "Replicas", least=1, most=100) or -1,
        settings_of(form.raw("configs")),
    )


async def add_partitions(request: Request) -> Response:
    console, form, name = console_of(request), form_of(request), str(request.path_params["topic"])
    view = await describe_topic(console.admin, name)
    now = len(view.partitions)
    preview, mistake = None, None
    if request.method == "POST":
        try:
            total = form.number("total", "Partitions", least=now + 1, most=_PARTITIONS_MAX)
            if total is None:
                raise FormMistake("Partitions: say how many there shall be.")
            await console.admin.topics.add_partitions(name, total, validate_only=True)
            if is_confirmed(form):
                await console.admin.topics.add_partitions(name, total)
                return console.done(f"/topics/{name}", f"{name} has {total} partitions now.")
            preview = Preview(
                title=f"Add {plural(total - now, 'partition')} to {name}",
                facts=[("Now", now), ("Then", total)],
                warning="Keys are spread anew: later records of a key may go to another partition than those "
                "before. Partitions cannot be taken away again.",
                button=f"Add {plural(total - now, 'partition')}",
                form=form,
            )
        except (FormMistake, KafkaError) as error:
            mistake = reason(error)
    return console.page(
        request,
        "topic_partitions.html",
        status=422 if mistake else 200,
        topic=name,
        now=now,
        form=form,
        preview=preview,
        mistake=mistake,
    )


async def empty(request: Request) -> Response:
    """Delete all records that are there at present; the topic and its offsets stay."""
    console, form, name = console_of(request), form_of(request), str(request.path_params["topic"])
    view = await describe_topic(console.admin, name)
    preview, mistake = None, None
    try:
        if request.method == "POST" and is_confirmed(form, name):
            places = [TopicPartition(name, each.partition) for each in view.partitions]
            await console.admin.topics.delete_records(dict.fromkeys(places, HIGH_WATERMARK))
            return console.done(f"/topics/{name}", f"{name} was emptied.")
    except (FormMistake, KafkaError) as error:
        mistake = reason(error)
    preview = Preview(
        title=f"Empty topic {name}",
        facts=[*_held(view), ("Read by", await _readers(console, name))],
        warning="These records are gone for good. Groups go on from where they are, at the end.",
        button="Delete all records",
        form=form,
        must_type=name,
        back=f"/topics/{name}",
    )
    return console.page(
        request,
        "topic_confirm.html",
        status=422 if mistake else 200,
        topic=name,
        preview=preview,
        mistake=mistake,
    )


async def delete(request: Request) -> Response:
    console, form, name = console_of(request), form_of(request), str(request.path_params["topic"])
    view = await describe_topic(console.admin, name)
    mistake = None
    try:
        if request.method == "POST" and is_confirmed(form, name):
            value_of((await console.admin.topics.delete([name]))[name])
            await console.sampler.fresh(0)
            return console.done("/topics", f"Topic {name} was deleted.")
    except (FormMistake, KafkaError) as error:
        mistake = reason(error)
    preview = Preview(
        title=f"Delete topic {name}",
        facts=[
            *_held(view),
            ("Read by", await _readers(console, name)),
            *([("Internal", "yes, the cluster itself needs it")] if view.internal else []),
        ],
        warning="The topic and its records are gone for good.",
        button="Delete the topic",
        form=form,
        must_type=name,
        back=f"/topics/{name}",
    )
    return console.page(
        request,
        "topic_confirm.html",
        status=422 if mistake else 200,
        topic=name,
        preview=preview,
        mistake=mistake,
    )


def _held(view: TopicView) -> list[tuple[str, object]]:
    return [
        ("Partitions", len(view.partitions)),
        ("Records", f"at most {count(view.record_count)}"),
        ("Size", size(view.size_bytes)),
    ]


async def _readers(console: Console, topic: str) -> str:
    """Who would miss it."""
    names = [reader.group_id for reader in (await console.lags.survey()).readers(topic)]
    if not names:
        return "no group"
    named, others = names[:_READERS_NAMED], len(names) - _READERS_NAMED
    listing = ", ".join(named) + (f" and {others} more" if others > 0 else "")
    return f"{'group' if len(names) == 1 else 'groups'} {listing}"

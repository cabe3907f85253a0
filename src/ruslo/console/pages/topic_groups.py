"""The groups that read a topic, those that are furthest behind first."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.views.group_survey import TopicReader
from ruslo.console.console import console_of
from ruslo.console.forms import Form
from ruslo.console.paging import paged

_PER_PAGE = 100
_FEW = 10


async def topic_groups(request: Request) -> Response:
    """A page of its own; that of the topic takes the beginning of its list once it is shown."""
    console, name = console_of(request), str(request.path_params["topic"])
    query = Form.of_query(request.query_params)
    await console.admin.topics.describe(name)
    survey = await console.lags.survey()
    found = sorted(survey.readers(name), key=_furthest_behind_first)
    return console.page(
        request,
        "topic_groups.html",
        topic=name,
        shown=paged(found, query, _FEW if query.flag("few") else _PER_PAGE),
        unknown=survey.unknown,
        few=query.flag("few"),
    )


def _furthest_behind_first(reader: TopicReader) -> tuple[int, str]:
    return -(reader.lag or 0), reader.group_id

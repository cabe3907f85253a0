"""The groups that read a topic, by descending lag."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.views.group_survey import TopicReader
from ruslo.console.console import console_of
from ruslo.console.forms import Form
from ruslo.console.paging import paged

_PER_PAGE = 100
_EMBEDDED_ROWS = 10


async def topic_groups(request: Request) -> Response:
    """All groups of a topic; the topic's page embeds the first rows (``few``)."""
    console, name = console_of(request), str(request.path_params["topic"])
    query = Form.of_query(request.query_params)
    await console.admin.topics.describe(name)
    survey = await console.lags.survey()
    found = sorted(survey.readers(name), key=_by_lag)
    return console.page(
        request,
        "topic_groups.html",
        topic=name,
        shown=paged(found, query, _EMBEDDED_ROWS if query.flag("few") else _PER_PAGE),
        unknown=survey.unknown,
        few=query.flag("few"),
    )


def _by_lag(reader: TopicReader) -> tuple[int, str]:
    return -(reader.lag or 0), reader.group_id

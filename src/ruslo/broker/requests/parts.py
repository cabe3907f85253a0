"""Large requests whose elements are independent of each other, answered part by part.

The table says which array of the request is divided and which array of the response the answers are in. An
array of topics may hold partitions, which are divided as well: the answers for one topic are put together
again. Between two parts the event loop serves other clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

from ruslo.protocol.message import Message


class Division(NamedTuple):
    """Names of the arrays in request and response."""

    asked: str
    answered: str
    inner_asked: str | None = None
    """The array inside each element, of partitions as a rule."""
    inner_answered: str | None = None
    size: int = 250
    """Elements of a part: what is answered within a few milliseconds."""
    unique: tuple[str, ...] = ()
    """Fields that name an element whose repetitions are left out, because each would cost a whole answer."""
    first_part_only: str | None = None
    """A flag of the request that holds for its first part only."""


_TOPIC_PARTITIONS = Division("topics", "topics", "partitions", "partitions")

DIVISIONS = {
    "ConsumerGroupDescribe": (Division("group_ids", "groups"),),
    "DeleteGroups": (Division("groups_names", "results"),),
    "DeleteRecords": (_TOPIC_PARTITIONS,),
    "DescribeConfigs": (
        Division("resources", "results", size=20, unique=("resource_type", "resource_name")),
    ),
    "DescribeGroups": (Division("groups", "groups"),),
    "DescribeProducers": (
        Division("topics", "topics", "partition_indexes", "partitions", size=20, unique=("name",)),
    ),
    "DescribeTransactions": (Division("transactional_ids", "transaction_states"),),
    "FindCoordinator": (Division("coordinator_keys", "coordinators"),),
    "ListOffsets": (_TOPIC_PARTITIONS._replace(size=50),),
    # Clients ask again for topics that are still to be created.
    "Metadata": (Division("topics", "topics", first_part_only="allow_auto_topic_creation"),),
    "OffsetFetch": (
        Division("groups", "groups"),
        Division("topics", "topics", "partition_indexes", "partitions"),
    ),
    "OffsetForLeaderEpoch": (_TOPIC_PARTITIONS,),
}


def parts_of(api_name: str, request: Message) -> tuple[Division, Iterator[Message]] | None:
    """How the request is divided, and its parts one after the other; None if it is answered as a whole."""
    request_fields: Any = request
    for division in DIVISIONS.get(api_name, ()):
        elements = getattr(request_fields, division.asked)
        if elements:
            if division.unique:
                elements = _unique(elements, division)
            return division, _parts(request, division, elements)
    return None


def _unique(elements: Sequence[Any], division: Division) -> list[Any]:
    names = [tuple(getattr(each, field) for field in division.unique) for each in elements]
    by_name = dict(zip(reversed(names), reversed(elements), strict=True))
    first_ones = list(reversed(by_name.values()))
    if division.inner_asked is not None:
        for each in first_ones:
            setattr(each, division.inner_asked, list(dict.fromkeys(getattr(each, division.inner_asked))))
    return first_ones


def _parts(request: Message, division: Division, elements: Sequence[Any]) -> Iterator[Message]:
    chosen: list[Any] = []
    room = division.size
    for element in elements:
        for piece, weight in _pieces(element, division):
            if weight > room and chosen:
                yield _with(request, division.asked, chosen)
                chosen, room = [], division.size
                if division.first_part_only is not None:
                    request = _with(request, division.first_part_only, False)
            chosen.append(piece)
            room -= weight
    yield _with(request, division.asked, chosen)


def _pieces(element: Any, division: Division) -> Iterator[tuple[Any, int]]:
    """The element in pieces that fit a part, each with its number of elements."""
    if division.inner_asked is None:
        yield element, 1
        return
    inner = getattr(element, division.inner_asked)
    if not inner or len(inner) <= division.size:
        yield element, max(len(inner or ()), 1)
        return
    for start in range(0, len(inner), division.size):
        piece = inner[start : start + division.size]
        yield _with(element, division.inner_asked, piece), len(piece)


def _with(struct: Any, field: str, value: object) -> Any:
    changed = copy(struct)
    setattr(changed, field, value)
    return changed


def merge(division: Division, responses: Sequence[Message]) -> Message:
    """The responses to the parts as one; fields outside the array are those of the last one."""
    merged: list[Any] = []
    for response in responses:
        if division.inner_answered is None:
            merged += getattr(response, division.answered)
            continue
        for answer in getattr(response, division.answered):
            if merged and _is_same_topic(merged[-1], answer):
                getattr(merged[-1], division.inner_answered).extend(getattr(answer, division.inner_answered))
            else:
                merged.append(answer)
    last = responses[-1]
    setattr(last, division.answered, merged)
    return last


def _is_same_topic(before: Any, answer: Any) -> bool:
    """A topic that was asked for twice in a row gets one answer as well."""
    name = "topic" if hasattr(answer, "topic") else "name"
    same: bool = getattr(before, name) == getattr(answer, name)
    return same

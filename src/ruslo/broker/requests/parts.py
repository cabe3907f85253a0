"""Large requests whose elements are independent of each other, handled part by part.

The table names the array of the request that is divided, and the array of the response with the results. An
array of topics may hold partitions, which are divided as well: the results of one topic are merged again.
Between two parts the event loop serves other clients.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from operator import attrgetter
from typing import Any, NamedTuple

from ruslo.protocol.message import Message


class Division(NamedTuple):
    """Names of the arrays in request and response."""

    request_array: str
    response_array: str
    inner_request_array: str | None = None
    """The array inside each element, of partitions as a rule."""
    inner_response_array: str | None = None
    size: int = 250
    """Elements of a part, which is handled within a few milliseconds."""
    unique: Callable[[Any], Hashable] | None = None
    """What identifies an element. Duplicates are left out, because each would cost a whole result."""
    first_part_only: str | None = None
    """A flag of the request that applies to its first part only."""


def _all_topics_of(group: Any) -> Hashable:
    """Identifies a request for all topics of a group; the results for topics that are named cost less."""
    return group.group_id if group.topics is None else id(group)


_TOPIC_PARTITIONS = Division("topics", "topics", "partitions", "partitions")
_SHARE_PARTITIONS = Division("topics", "results", "partitions", "partitions", size=100)

DIVISIONS = {
    "ConsumerGroupDescribe": (Division("group_ids", "groups", unique=str),),
    "DeleteGroups": (Division("groups_names", "results", unique=str),),
    "DeleteRecords": (_TOPIC_PARTITIONS,),
    "DeleteShareGroupState": (_SHARE_PARTITIONS,),
    "DescribeConfigs": (
        Division("resources", "results", size=20, unique=attrgetter("resource_type", "resource_name")),
    ),
    "DescribeGroups": (Division("groups", "groups", unique=str),),
    "DescribeProducers": (
        Division("topics", "topics", "partition_indexes", "partitions", size=20, unique=attrgetter("name")),
    ),
    "DescribeShareGroupOffsets": (Division("groups", "groups", size=20, unique=_all_topics_of),),
    "DescribeTransactions": (Division("transactional_ids", "transaction_states", unique=str),),
    "InitializeShareGroupState": (_SHARE_PARTITIONS,),
    "FindCoordinator": (Division("coordinator_keys", "coordinators"),),
    "ListOffsets": (_TOPIC_PARTITIONS._replace(size=50),),
    # Clients request topics again that are not created yet.
    "Metadata": (Division("topics", "topics", first_part_only="allow_auto_topic_creation"),),
    "OffsetFetch": (
        Division("groups", "groups", unique=_all_topics_of),
        Division("topics", "topics", "partition_indexes", "partitions"),
    ),
    "OffsetForLeaderEpoch": (_TOPIC_PARTITIONS,),
    "ReadShareGroupState": (_SHARE_PARTITIONS,),
    "ReadShareGroupStateSummary": (_SHARE_PARTITIONS,),
    "StreamsGroupDescribe": (Division("group_ids", "groups", unique=str),),
    "ShareGroupDescribe": (Division("group_ids", "groups", unique=str),),
    "WriteShareGroupState": (_SHARE_PARTITIONS,),
}


def parts_of(api_name: str, request: Message) -> tuple[Division, Iterator[Message]] | None:
    """Return the division of the request and its parts; None if it is handled as a whole."""
    request_fields: Any = request
    for division in DIVISIONS.get(api_name, ()):
        elements = getattr(request_fields, division.request_array)
        if elements:
            if division.unique is not None:
                elements = _unique(elements, division, division.unique)
            return division, _parts(request, division, elements)
    return None


def _unique(elements: Sequence[Any], division: Division, identity: Callable[[Any], Hashable]) -> list[Any]:
    by_name: dict[Hashable, Any] = {}
    for each in elements:
        by_name.setdefault(identity(each), each)
    first_ones = list(by_name.values())
    if division.inner_request_array is not None:
        for each in first_ones:
            setattr(
                each,
                division.inner_request_array,
                list(dict.fromkeys(getattr(each, division.inner_request_array))),
            )
    return first_ones


def _parts(request: Message, division: Division, elements: Sequence[Any]) -> Iterator[Message]:
    chosen: list[Any] = []
    room = division.size
    for element in elements:
        for piece, weight in _pieces(element, division):
            if weight > room and chosen:
                yield _with(request, division.request_array, chosen)
                chosen, room = [], division.size
                if division.first_part_only is not None:
                    request = _with(request, division.first_part_only, False)
            chosen.append(piece)
            room -= weight
    yield _with(request, division.request_array, chosen)


def _pieces(element: Any, division: Division) -> Iterator[tuple[Any, int]]:
    """Divide an element into pieces that fit a part; yields each with its number of inner elements."""
    if division.inner_request_array is None:
        yield element, 1
        return
    inner = getattr(element, division.inner_request_array)
    if not inner or len(inner) <= division.size:
        yield element, max(len(inner or ()), 1)
        return
    for start in range(0, len(inner), division.size):
        piece = inner[start : start + division.size]
        yield _with(element, division.inner_request_array, piece), len(piece)


def _with(struct: Any, field: str, value: object) -> Any:
    changed = copy(struct)
    setattr(changed, field, value)
    return changed


def merge(division: Division, responses: Sequence[Message]) -> Message:
    """Merge the responses to the parts; fields outside the array are those of the last one."""
    merged: list[Any] = []
    for response in responses:
        if division.inner_response_array is None:
            merged += getattr(response, division.response_array)
            continue
        for result in getattr(response, division.response_array):
            if merged and _is_same_topic(merged[-1], result):
                getattr(merged[-1], division.inner_response_array).extend(
                    getattr(result, division.inner_response_array)
                )
            else:
                merged.append(result)
    last = responses[-1]
    setattr(last, division.response_array, merged)
    return last


def _is_same_topic(before: Any, result: Any) -> bool:
    """Whether two results belong to one topic, as of a topic that the request names twice in a row."""
    name = next(name for name in ("topic", "name", "topic_id") if hasattr(result, name))
    same: bool = getattr(before, name) == getattr(result, name)
    return same

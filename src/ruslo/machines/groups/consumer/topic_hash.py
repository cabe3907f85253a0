"""The hash of a group's subscribed topics (KIP-1101).

The group's record contains it, so it must equal that of Kafka's coordinator: XXH3-64 over little-endian
fields, strings as UTF-16 followed by their length in units.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct

from xxhash import xxh3_64_intdigest

from ruslo.machines.groups.topics_view import TopicInfo, TopicsView

_FORMAT = b"\x00"
_pack_int32 = Struct("<i").pack
_pack_uint64 = Struct("<Q").pack
_unpack_halves = Struct(">QQ").unpack
_SIGN = 1 << 63

NO_TOPICS_HASH = 0


def of_topics(view: TopicsView, names: Iterable[str]) -> int:
    """The hash of a group that subscribes to these topics, without topics that do not exist."""
    topics = [topic for name in names if (topic := view.by_name(name)) is not None]
    return group_hash((topic.name, topic_hash(topic)) for topic in topics)


@lru_cache(maxsize=4096)
def topic_hash(topic: TopicInfo) -> int:
    most, least = _unpack_halves(topic.id)
    out = bytearray(_FORMAT)
    out += _pack_uint64(most)
    out += _pack_uint64(least)
    out += _string(topic.name)
    out += _pack_int32(topic.partition_count)
    for partition in range(topic.partition_count):
        out += _pack_int32(partition)
        if topic.racks:
            for rack in sorted(topic.racks[partition], key=_java_order):
                out += _pack_int32(len(_utf16(rack)) // 2)
                out += _string(rack)
    return _signed(xxh3_64_intdigest(out))


def group_hash(hashes_by_name: Iterable[tuple[str, int]]) -> int:
    """The hashes of existing topics by name."""
    in_order = [hashed for _, hashed in sorted(hashes_by_name)]
    if not in_order:
        return NO_TOPICS_HASH
    return _signed(xxh3_64_intdigest(b"".join(_pack_uint64(hashed % (2 * _SIGN)) for hashed in in_order)))


def _string(text: str) -> bytes:
    units = _utf16(text)
    return units + _pack_int32(len(units) // 2)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _signed(hashed: int) -> int:
    return hashed - 2 * _SIGN if hashed >= _SIGN else hashed


def _java_order(text: str) -> bytes:
    """The order of Java strings, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")

"""Fetch, versions 4 to 18, without an object per field.

A request becomes flat tuples. A response is only framed here: the records stay in their file or buffer, and
the encoder returns the pieces of the frame, with the caller's objects in place of the records. The bytes are
those of the generated codec.
"""

from __future__ import annotations

from ruslo.protocol.fetch_request_codec import (
    UNKNOWN_HIGH_WATERMARK,
    FetchBody,
    PartitionFetch,
    TopicFetch,
    TopicForgotten,
    decode_fetch_request,
)
from ruslo.protocol.fetch_response_codec import (
    FetchedPartition,
    FetchedTopic,
    FetchHints,
    encode_fetch_response,
)

__all__ = [
    "UNKNOWN_HIGH_WATERMARK",
    "FetchBody",
    "FetchHints",
    "FetchedPartition",
    "FetchedTopic",
    "PartitionFetch",
    "TopicFetch",
    "TopicForgotten",
    "decode_fetch_request",
    "encode_fetch_response",
]

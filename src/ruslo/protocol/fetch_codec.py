"""Fetch, versions 4 to 18, without an object per field.

A request becomes flat tuples. A response is only framed here: the records stay where they are, in a file or
in memory, and the encoder returns the pieces of the frame with the caller's own objects standing for the
records between them. Both directions agree with the generated codec, byte for byte.
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

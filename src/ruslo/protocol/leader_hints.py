"""Leader hints in the responses of a broker that is not the leader (KIP-951)."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TypeAlias

from ruslo.model.errors import ProtocolError
from ruslo.protocol.primitives import STRING_BYTES_MAX, write_uvarint

LeaderAndEpoch: TypeAlias = tuple[int, int]
"""Broker id of a leader, and its epoch."""

NodeEndpoint: TypeAlias = tuple[int, str, int, str | None]
"""Node id, host, port, rack."""

NO_LEADER: LeaderAndEpoch = (-1, -1)

_INT32 = Struct(">i")


def write_node_endpoints(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """Write the tagged fields of a response whose only tagged field, tag 0, is the endpoints."""
    field = bytearray()
    write_endpoints(field, endpoints)
    out += b"\x01\x00"
    write_uvarint(out, len(field))
    out += field


def write_endpoints(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """Write the endpoints as a compact array."""
    write_uvarint(out, len(endpoints) + 1)
    for node_id, host, port, rack in endpoints:
        out += _INT32.pack(node_id)
        write_compact_string(out, host)
        out += _INT32.pack(port)
        write_compact_string(out, rack)
        out.append(0)


def write_compact_string(out: bytearray, text: str | None) -> None:
    if text is None:
        out.append(0)
        return
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise ProtocolError(
            f"cannot encode a string of {len(data)} bytes, the protocol allows {STRING_BYTES_MAX}"
        )
    write_uvarint(out, len(data) + 1)
    out += data


def write_string(out: bytearray, text: str | None) -> None:
    """Write a string of a version that is not flexible."""
    if text is None:
        out += b"\xff\xff"
        return
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise ProtocolError(
            f"cannot encode a string of {len(data)} bytes, the protocol allows {STRING_BYTES_MAX}"
        )
    out += len(data).to_bytes(2, "big")
    out += data

"""Gathers values that are scattered in a buffer into the contiguous layout of Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ruslo.pipeline.decode.compiled import BYTES, INT32S, INT64, INT64S, OUT_BYTES, compiled
from ruslo.pipeline.decode.walker import Bytes, Int32s, Int64s


@intrinsic
def _block_copy(typing_context, target, target_at, source, source_at, count):  # type: ignore[no-untyped-def]
    """``target[target_at:][:count] = source[source_at:][:count]`` as a memcpy.

    For short values a slice assignment costs more than the copy.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        into = context.make_array(signature.args[0])(context, builder, arguments[0])
        out_of = context.make_array(signature.args[2])(context, builder, arguments[2])
        cgutils.raw_memcpy(  # type: ignore[no-untyped-call]
            builder,
            builder.gep(into.data, [arguments[1]]),
            builder.gep(out_of.data, [arguments[3]]),
            arguments[4],
            1,
        )
        return context.get_dummy_value()

    return types.void(target, target_at, source, source_at, count), generate


copy_bytes = cast("Callable[[Bytes, int, Bytes, int, int], None]", _block_copy)


@compiled(types.void(BYTES, INT64S, INT32S, INT64, INT64, INT32S, OUT_BYTES))
def gather(
    data: Bytes, at: Int64s, lengths: Int32s, first: int, last: int, out_offsets: Int32s, out: Bytes
) -> None:
    """Copy ``data[at[i] :][: lengths[i]]`` for rows first..last to ``out``; a length of -1 is null.

    ``out`` must have room for all of them, and positions and lengths must come from ``walk`` over ``data``.
    """
    pos = 0
    out_offsets[0] = 0
    for row in range(first, last):
        length = lengths[row]
        if length > 0:
            copy_bytes(out, pos, data, at[row], length)
            pos += length
        out_offsets[row - first + 1] = pos

"""Compiles functions with numba: for fixed types, without the GIL, cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba
from numba import types

P = ParamSpec("P")
R = TypeVar("R")

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OUT_BYTES = types.uint8[::1]
INT64S = types.int64[::1]
INT32S = types.int32[::1]
INT64 = types.int64
PAIR = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]


def compiled(signature: object) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile for one signature when the module is imported; later runs load the cached code."""

    def compile_function(function: Callable[P, R]) -> Callable[P, R]:
        try:
            found = numba.njit(signature, cache=True, nogil=True)(function)
        except RuntimeError as error:
            # Raised if no cache folder is writable: then each process compiles for itself.
            if "cannot cache function" not in str(error):
                raise
            found = numba.njit(signature, nogil=True)(function)
        return cast("Callable[P, R]", found)

    return compile_function

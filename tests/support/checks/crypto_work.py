"""The cryptographic calls of a piece of code, counted: work that must not depend on a secret.

Counting is exact where elapsed time is noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_COUNTED = frozenset({"compare_digest", "hmac_digest", "hmac_new", "new", "pbkdf2_hmac", "digest"})
_MODULES = frozenset({"_hashlib", "_operator"})


def crypto_calls(work: Callable[[], None]) -> list[str]:
    """The names of the digests, MACs and comparisons that ``work`` calls, in order."""
    calls: list[str] = []

    def record(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in _COUNTED:
            owner = called.__self__
            if getattr(owner, "__name__", type(owner).__module__) in _MODULES:
                calls.append(called.__name__)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls

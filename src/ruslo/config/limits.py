"""The largest numbers of Java's types; many settings use them for "no limit"."""

from __future__ import annotations

import sys

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = sys.float_info.max

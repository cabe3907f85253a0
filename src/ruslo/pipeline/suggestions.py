"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """Suggests a similar known word, or lists all of them. Case is ignored."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {names[near[0]]!r}?"
    return f"Use one of {', '.join(sorted(names.values()))}." if names else ""

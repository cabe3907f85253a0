"""The kinds of bytes that pass through the rooms."""

from __future__ import annotations

from typing import TypeAlias

ReadBuffer: TypeAlias = bytes | bytearray | memoryview
WriteBuffer: TypeAlias = bytearray | memoryview

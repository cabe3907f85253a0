"""Types of byte buffers."""

from __future__ import annotations

from typing import TypeAlias

ReadBuffer: TypeAlias = bytes | bytearray | memoryview
WriteBuffer: TypeAlias = bytearray | memoryview

"""Random mutations that make well-formed messages malformed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

HOSTILE = (
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x08",
    b"\x80\x80\x80\x80\x80\x80",
    b"\x00",
    b"\x01",
)
"""Lengths that are too large, negative, or too long to be varints."""


def flip(source: random.Random, data: bytearray) -> None:
    data[source.randrange(len(data))] = source.randrange(256)


def overwrite(source: random.Random, data: bytearray) -> None:
    at = source.randrange(len(data))
    hostile = source.choice(HOSTILE)
    data[at : at + len(hostile)] = hostile


def insert(source: random.Random, data: bytearray) -> None:
    at = source.randrange(len(data))
    data[at:at] = source.choice(HOSTILE)


def truncate(source: random.Random, data: bytearray) -> None:
    del data[source.randrange(len(data)) :]


def remove(source: random.Random, data: bytearray) -> None:
    at = source.randrange(len(data))
    del data[at : at + source.randrange(1, 6)]


Mutation: TypeAlias = Callable[[random.Random, bytearray], None]
MUTATIONS: tuple[Mutation, ...] = (flip, flip, overwrite, overwrite, insert, truncate, remove)


def mutated(source: random.Random, seeds: list[bytes]) -> bytes:
    data = bytearray(source.choice(seeds))
    for _ in range(source.choice((1, 1, 2, 4))):
        if data:
            source.choice(MUTATIONS)(source, data)
    return bytes(data)

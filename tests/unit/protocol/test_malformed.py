"""Malformed bytes only raise ProtocolError, and cost little memory."""

from __future__ import annotations

import random
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.notation import MessageSpec
from ruslo.model.errors import ProtocolError
from ruslo.protocol.message import Message
from tests.support.protocol.mutations import HOSTILE, mutated
from tests.support.protocol.values import ValueMaker, message_class, message_versions

MUTATIONS_EACH = 140
NOISE_EACH = 10


def seeds_of(message: MessageSpec, version: int, source: random.Random) -> list[bytes]:
    maker = ValueMaker(message, version, source)
    values = [message_class(message.name)(), maker.nulls(), maker.random(), maker.random()]
    # Long seeds are slow and find no more errors than short ones.
    return [encoded for value in values if len(encoded := value.to_bytes(version)) < 1500] or [b"\0"]


def read_or_reject(message: type[Message], data: bytes, version: int) -> Message | None:
    """The message, or None after a ProtocolError; other errors propagate."""
    try:
        value, end = message.read(data, 0, version)
    except ProtocolError:
        return None
    assert end <= len(data)
    return value


def test_mutated_messages_are_rejected_or_decoded() -> None:
    cases = understood = 0
    for message, version in message_versions():
        source = random.Random(f"{message.name} {version}")
        message_type = message_class(message.name)
        seeds = seeds_of(message, version, source)
        for number in range(MUTATIONS_EACH):
            value = read_or_reject(message_type, mutated(source, seeds), version)
            cases += 1
            if value is not None:
                understood += 1
                if number % 8 == 0:
                    # A decoded message can be encoded again and decodes to the same message.
                    again = value.to_bytes(version)
                    assert message_type.from_bytes(again, version).to_bytes(version) == again
    assert cases > 100_000
    assert 0.1 < understood / cases < 0.9


def test_random_bytes_are_rejected_or_decoded() -> None:
    source = random.Random(20)
    for message, version in message_versions():
        message_type = message_class(message.name)
        for _ in range(NOISE_EACH):
            read_or_reject(message_type, source.randbytes(source.choice((0, 1, 2, 5, 12, 40, 200))), version)


@settings(max_examples=500, database=None, derandomize=True)
@given(pair=st.sampled_from(list(message_versions())), data=st.binary(max_size=100))
def test_any_bytes_are_rejected_or_decoded(pair: tuple[MessageSpec, int], data: bytes) -> None:
    message, version = pair
    read_or_reject(message_class(message.name), data, version)


def test_hostile_lengths_cost_no_memory() -> None:
    """Put a huge length at every position of a small message, and measure the allocated memory."""
    cases = 0
    worst = 0
    tracemalloc.start()
    try:
        for message, version in message_versions():
            source = random.Random(f"{message.name} {version}")
            message_type = message_class(message.name)
            encoded = ValueMaker(message, version, source).nulls().to_bytes(version)
            positions = sorted(source.sample(range(len(encoded)), min(len(encoded), 24)))
            for position in positions:
                hostile = HOSTILE[(position + version) % 9]
                # Zeros follow, so that many small structs could be read if the length were trusted.
                data = encoded[:position] + hostile + bytes(300)
                tracemalloc.reset_peak()
                before, _ = tracemalloc.get_traced_memory()
                read_or_reject(message_type, data, version)
                _, peak = tracemalloc.get_traced_memory()
                worst = max(worst, peak - before)
                cases += 1
    finally:
        tracemalloc.stop()
    assert cases > 10_000
    assert worst < 32_000, "a few hundred bytes of input must not allocate much more"

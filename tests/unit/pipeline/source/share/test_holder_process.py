from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.model.errors import ErrorCode, KafkaError, RusloError
from ruslo.pipeline.client_properties import ClientProperties
from ruslo.pipeline.source.share.holder_messages import Join, Release, read_message, write_message
from ruslo.pipeline.source.share.holder_process import HolderProcess

UNREACHABLE = ClientProperties("127.0.0.1:1", api_timeout_ms=1_000)
JOIN = Join(UNREACHABLE, "workers", ("orders",), AcknowledgeType.RELEASE, {})


@pytest.fixture
def process() -> Iterator[HolderProcess]:
    found = HolderProcess(JOIN)
    yield found
    found.stop()


def test_messages_arrive_whole_or_not_at_all() -> None:
    stream = io.BytesIO()
    write_message(stream, JOIN)
    write_message(stream, Release())
    written = stream.getvalue()
    stream.seek(0)
    assert [read_message(stream), read_message(stream), read_message(stream)] == [JOIN, Release(), None]
    assert read_message(io.BytesIO(written[:-1])) == JOIN
    assert read_message(io.BytesIO(written[:3])) is None
    assert read_message(io.BytesIO(written[:20])) is None


def test_errors_of_the_process_are_raised_by_the_reader(process: HolderProcess) -> None:
    with pytest.raises(KafkaError, match=r"cannot connect to 127\.0\.0\.1:1") as caught:
        process.next_batch({}, None, is_last=False)
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION


def test_the_end_of_the_process_is_reported(process: HolderProcess) -> None:
    process._process.kill()
    process._process.wait()
    with pytest.raises(RusloError, match="the process that holds the locks of the share group has ended"):
        process.release()

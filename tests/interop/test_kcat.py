"""kcat, from the system's packages: librdkafka in an older version and another program."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.interop.conftest import TopicMaker
from tests.support.tools.programs import require_tool


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    command = [require_tool("kcat"), "-b", bootstrap, *arguments]
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(bootstrap: str, new_topic: TopicMaker, codec: str) -> None:
    topic = new_topic()
    lines = [f"key-{number}:value-{number}" for number in range(200)]
    text = "\n".join(lines) + "\n"

    kcat(bootstrap, "-P", "-t", topic, "-K", ":", "-z", codec, "-H", "from=kcat", stdin=text)
    read = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-f", "%o %h %k:%s\\n").splitlines()

    assert read == [f"{number} from=kcat {line}" for number, line in enumerate(lines)]


def test_metadata(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic(partitions=3)

    metadata = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))

    assert [broker["id"] for broker in metadata["brokers"]] == [1]
    (described,) = metadata["topics"]
    assert described["topic"] == topic
    assert [(partition["partition"], partition["leader"]) for partition in described["partitions"]] == [
        (0, 1),
        (1, 1),
        (2, 1),
    ]


def test_offset_queries(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    kcat(bootstrap, "-P", "-t", topic, stdin="a\nb\nc\n")

    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "3"]
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:-2").split() == [topic, "[0]", "offset", "0"]
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:1").split() == [topic, "[0]", "offset", "0"]


def test_the_last_records_only(bootstrap: str, new_topic: TopicMaker) -> None:
    topic = new_topic()
    kcat(bootstrap, "-P", "-t", topic, stdin="".join(f"{number}\n" for number in range(50)))

    assert kcat(bootstrap, "-C", "-t", topic, "-o", "-5", "-e", "-q").split() == [
        "45",
        "46",
        "47",
        "48",
        "49",
    ]

"""Reads a topic as the only member of a share group, and accepts every record."""

from __future__ import annotations

import ruslo


def read_values(bootstrap: str, group: str, topic: str, count: int) -> list[str]:
    """The values of the next records; fails if the group gets fewer, or more at once."""
    consumer = ruslo.ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    values: list[str] = []
    with consumer:
        while len(values) < count:
            records = consumer.poll(30)
            assert records, f"the group got {len(values)} of {count} records"
            values += [(record.value or b"").decode() for record in records]
        consumer.commit()
    return values

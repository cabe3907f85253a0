"""The names of a query's micro-batches and of batch jobs, in Kafka and in the staging folder."""

from __future__ import annotations

from dataclasses import dataclass

_PREFIX = "ruslo"


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """Identifies a micro-batch of a query. It is the same after a restart from the same checkpoint.

    The query's id comes from the checkpoint. Without it, a query with a new checkpoint, which starts at batch
    0 again, would find its batches already written.
    """

    sink_name: str
    query_id: str
    batch_id: int

    @property
    def transactional_id(self) -> str:
        return f"{_PREFIX}-{self.sink_name}-{self.query_id}"

    @property
    def marker_group(self) -> str:
        """The consumer group whose committed offset is the id of the last written batch."""
        return self.transactional_id

    @property
    def staging_folder(self) -> str:
        return f"{self.query_folder}/{self.batch_id}"

    @property
    def query_folder(self) -> str:
        return f"{self.sink_name}-{self.query_id}"


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """Identifies a batch job, whose id is never used again."""

    sink_name: str
    job_id: str

    @property
    def transactional_id(self) -> str:
        return f"{_PREFIX}-{self.sink_name}-job-{self.job_id}"

    @property
    def staging_folder(self) -> str:
        return f"{self.sink_name}-job-{self.job_id}"

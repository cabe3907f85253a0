"""Who writes: the names that a query's batches have in Kafka and in the staging folder."""

from __future__ import annotations

from dataclasses import dataclass

_PREFIX = "ruslo"


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """One micro-batch of one query. It is the same after a restart from the same checkpoint.

    The query's id comes from the checkpoint: a name alone would make a query with a new checkpoint, which
    begins at batch 0 again, believe that its batches are written already.
    """

    sink_name: str
    query_id: str
    batch_id: int

    @property
    def transactional_id(self) -> str:
        return f"{_PREFIX}-{self.sink_name}-{self.query_id}"

    @property
    def marker_group(self) -> str:
        """The consumer group whose committed offset is the last batch that was written."""
        return self.transactional_id

    @property
    def staging_folder(self) -> str:
        return f"{self.query_folder}/{self.batch_id}"

    @property
    def query_folder(self) -> str:
        return f"{self.sink_name}-{self.query_id}"


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """A batch job, which nobody repeats under the same name."""

    sink_name: str
    job_id: str

    @property
    def transactional_id(self) -> str:
        return f"{_PREFIX}-{self.sink_name}-job-{self.job_id}"

    @property
    def staging_folder(self) -> str:
        return f"{self.sink_name}-job-{self.job_id}"

"""Producers and consumers over librdkafka that record a history; begin with ``workload.Workload``."""

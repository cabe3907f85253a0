"""Producers and consumers over librdkafka that record a history."""

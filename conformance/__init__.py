"""Apache Kafka's own integration tests, run against Ruslo: `make conformance`."""

"""The targets for one node, as ratios to Apache Kafka in the same run, and the docs page with the results."""

from __future__ import annotations

from bench.scenarios import PARTITIONS
from bench.storm_scenario import LIMIT_PER_S
from bench.table import Results, Row, machine, markdown_table

ROWS = [
    Row("produce 1 KB, acks=all", "records-1k", "produce_mb_per_s", "MB/s", "more", 3.0, 0),
    Row("produce 1 KB, processor", "records-1k", "produce_cpu_s_per_gb", "CPU-s/GB", "less", 0.3),
    Row(
        "produce 100 B, acks=all",
        "records-100b",
        "produce_records_per_s",
        "M rec/s",
        "more",
        3.0,
        2,
        1e-6,
    ),
    Row("produce 100 B, processor", "records-100b", "produce_cpu_s_per_gb", "CPU-s/GB", "less"),
    Row("consume 1 KB", "records-1k", "consume_mb_per_s", "MB/s", "more", 1.5, 0),
    Row("consume 1 KB, processor", "records-1k", "consume_cpu_s_per_gb", "CPU-s/GB", "less"),
    Row("raw fetch loop, 1 KB", "records-1k", "fetch_mb_per_s", "MB/s", "more", 1.5, 0),
    Row("consume 100 B", "records-100b", "consume_records_per_s", "M rec/s", "more", None, 2, 1e-6),
    Row("consume 1 KB in a group", "records-1k", "group_mb_per_s", "MB/s", "more", 1.5, 0),
    Row("consume 100 B in a group", "records-100b", "group_records_per_s", "M rec/s", "more", 1.0, 2, 1e-6),
    Row("one record at a time, ack p50", "latency", "ack_p50_ms", "ms", "less", None, 3),
    Row("one record at a time, ack p99", "latency", "ack_p99_ms", "ms", "less", 0.5, 3),
    Row("start to first Metadata answer", "start", "start_s", "s", "less", 0.15),
    Row("memory, idle", "start", "memory_idle_mb", "MB", "less", 0.2, 0),
    Row("memory, after the 1 KB load", "records-1k", "memory_after_load_mb", "MB", "less", 0.1, 0),
    Row("memory, after the 100 B load", "records-100b", "memory_after_load_mb", "MB", "less", 0.1, 0),
    Row("4,000 partitions, created", "partitions-4000", "partitions_created_s", "s", "less", 1.0),
    Row("4,000 partitions, ready after restart", "partitions-4000", "partitions_ready_s", "s", "less", 0.2),
    Row("4,000 partitions, memory", "partitions-4000", "partitions_memory_mb", "MB", "less", 0.3, 0),
    Row("offset commits, as they come", "groups", "commits_per_s", "1/s", "more", None, 0),
    Row("offset commits, per core", "groups", "commits_per_cpu_s", "1/CPU-s", "more", None, 0),
    Row("10,000 groups, created", "groups", "groups_made_s", "s", "less"),
    Row("10,000 groups, rebalanced", "groups", "groups_rebalance_s", "s", "less"),
    Row("1,000 members, classic, joined", "groups", "large_classic_made_s", "s", "less"),
    Row("1,000 members, classic, rebalanced", "groups", "large_classic_rebalance_s", "s", "less"),
    Row("1,000 members, new protocol, joined", "groups", "large_consumer_made_s", "s", "less"),
    Row("longest step of the loop meanwhile", "groups", "longest_step_ms", "ms", "less", None, 1),
    Row("produce meanwhile, ack p99", "groups", "produce_p99_ms_meanwhile", "ms", "less", None, 1),
    Row("produce meanwhile, longest ack", "groups", "produce_max_ms_meanwhile", "ms", "less", None, 1),
    Row("groups, memory", "groups", "groups_memory_mb", "MB", "less", None, 0),
    Row("small transactions, 1 producer", "transactions", "small_1_per_s", "1/s", "more", 3.0, 0),
    Row("small transactions, 1 producer, p50", "transactions", "small_1_p50_ms", "ms", "less", 0.2),
    Row("small transactions, 20 producers", "transactions", "small_20_per_s", "1/s", "more", 3.0, 0),
    Row("small transactions, 50 producers", "transactions", "small_50_per_s", "1/s", "more", 3.0, 0),
    Row("small transactions, processor", "transactions", "small_50_cpu_ms_each", "CPU-ms", "less", None, 2),
    Row(
        "small transactions, the client's own",
        "transactions",
        "small_50_client_cpu_ms_each",
        "CPU-ms",
        "less",
    ),
    Row("newest librdkafka, 1 producer", "transactions", "newest_small_1_per_s", "1/s", "more", None, 0),
    Row("newest librdkafka, 1 producer, p50", "transactions", "newest_small_1_p50_ms", "ms", "less"),
    Row("newest librdkafka, 20 producers", "transactions", "newest_small_20_per_s", "1/s", "more", None, 0),
    Row("newest librdkafka, 50 producers", "transactions", "newest_small_50_per_s", "1/s", "more", None, 0),
    Row("newest librdkafka, processor", "transactions", "newest_small_50_cpu_ms_each", "CPU-ms", "less"),
    Row(
        "newest librdkafka, the client's own",
        "transactions",
        "newest_small_50_client_cpu_ms_each",
        "CPU-ms",
        "less",
    ),
    Row("wide transaction, written", "transactions", "wide_write_s", "s", "less"),
    Row("wide transaction, ended everywhere", "transactions", "wide_end_s", "s", "less"),
    Row("longest step of the loop meanwhile", "transactions", "wide_longest_step_ms", "ms", "less", None, 1),
    Row("compaction, 100 B, few keys", "compaction", "small_mb_per_cpu_s", "MB/CPU-s", "more", 1.0, 0),
    Row("compaction, 1 KB, few keys", "compaction", "large_mb_per_cpu_s", "MB/CPU-s", "more", 1.0, 0),
    Row("compaction, 100 B, many keys", "compaction", "wide_mb_per_cpu_s", "MB/CPU-s", "more", 1.0, 0),
    Row("produce meanwhile, ack p99 by quiet", "compaction", "produce_p99_slowdown", "×", "less"),
    Row("metrics: produce 1 KB, by uncounted", "metrics", "produce_cost_ratio", "×", "less", None, 3),
    Row("metrics: small request, by uncounted", "metrics", "request_cost_ratio", "×", "less", None, 3),
    Row("TLS: produce 1 KB, acks=all", "tls", "produce_mb_per_s", "MB/s", "more", 1.5, 0),
    Row("TLS: produce 1 KB, processor", "tls", "produce_cpu_s_per_gb", "CPU-s/GB", "less"),
    Row("TLS: consume 1 KB", "tls", "consume_mb_per_s", "MB/s", "more", 1.5, 0),
    Row("TLS: consume 1 KB, processor", "tls", "consume_cpu_s_per_gb", "CPU-s/GB", "less"),
    Row("ACLs: ack p99 divided by that without", "acls", "acls_p99_ratio", "", "less", None, 2, 1.0, 1.05),
    Row("1,000 clients: distance from their quota", "quotas", "quota_error_percent", "%", "less"),
    Row("connection storm: ack p99", "storm", "storm_p99_ms", "ms", "less", None, 2),
    Row("connection storm: ack p99 by calm", "storm", "storm_p99_ratio", "×", "less"),
    Row("limited storm: ack p99 by calm", "storm", "limited_storm_p99_ratio", "×", "less"),
    Row("connection storm: connects", "storm", "storm_connects_per_s", "1/s", "more", None, 0),
]


def markdown_page(results: Results, command: str, load_average: float) -> str:
    return f"""# Benchmarks

Ruslo and Apache Kafka 4.3.0 run one after the other on the same machine, under the same load program
(`bench/load.c`, librdkafka), which shares the processors with the broker. `ratio` is Ruslo's figure divided
by Apache Kafka's. "Nothing stored" is the same client with a C program that acknowledges records and
discards them (`bench/ceiling.c`): no broker can be faster than that here, see
[ADR 8](adr/0008-what-a-ratio-can-show.md).

{markdown_table(results, ROWS)}

Measured by `{command}` on {machine()}, with a load average of {load_average:.1f} before it began.

How it is measured:

- **Set-up.** One node with both roles on an empty directory; topics of {PARTITIONS} partitions; 2 million
  records of 1 KB and 10 million of 100 bytes; the second of two rounds counts. Apache Kafka runs with the
  heap of 1 GB and the collector settings of its own start script. CPU time is user and system time of the
  broker process.
- **Preparation.** Before each load, memory is touched and freed, and dirty pages are written: the first
  touch of memory is more expensive on virtual machines than the measured work.
- **Client.** The load program passes its records to librdkafka in batches, without a copy, which leaves as
  much CPU time to the broker as the client allows. It runs in a scheduler session of its own: Linux shares
  processors by session (`sched_autogroup`), and in the same session the many threads of a client would take
  them from the broker.
- **Consume.** Consumers read partitions directly; "in a group" subscribes, and its clock starts with the
  first record; the raw fetch loop counts records by the headers of their batches. "Ready" means that a
  ListOffsets request for all partitions succeeds.
- **Groups.** Commits are requests for one partition each, of 1,000 groups over 8 connections; the goal is
  20,000 per second on a core. 10,000 classic groups of one member and two groups of 1,000 members, one of
  each protocol, are created and rebalanced while another client produces one record at a time. No callback
  of Ruslo's event loop may take 20 ms of CPU time meanwhile.
- **Transactions.** A small transaction has 5 records of 100 bytes on 2 partitions and a commit; every
  producer has a thread and a transactional id of its own. librdkafka waits one millisecond before each
  transaction. Debian's version (2.0.2) spins meanwhile (its issue 4684), which takes more CPU time than any
  broker, and waits long while the previous transaction is being completed. "Newest" is the version of
  confluent-kafka, which retries soon. With "nothing stored" every step of a transaction gets a response at
  once, and no marker is written. The wide transaction, with the newest version, has a million records on
  1,000 partitions; it has ended everywhere when its producer can commit the next one.
- **Compaction.** 300 MB of updates in segments of 100 MB, 1 % tombstones, 100,000 or a million keys. The
  rate is per second of CPU time of Ruslo's cleaner process or Kafka's cleaner thread; the p99 of producers
  should not rise by more than half.
- **Metrics.** CPU time of a broker that is scraped every second, divided by that of a broker without any
  counting, each the minimum of 15 short alternating rounds; more than 1.02 for 1 KB records would be too
  much.
- **Quotas.** 1,000 connections of one user produce batches of 16 KB without a pause under a common quota of
  5 MB/s. The figure is how far their throughput is from the quota once the initial burst is over; 5 % would
  be too much.
- **Connection storm.** A process opens, uses once and closes connections to a PLAINTEXT, an SSL and a
  SASL_PLAINTEXT listener, 100 at a time, while another client produces one record at a time. In the limited
  storm `max.connection.creation.rate` is {LIMIT_PER_S}.
"""

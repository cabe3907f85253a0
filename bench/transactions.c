/* Transactions: many small ones from many producers, and one that is as wide as its topic.
 *
 * A small one is RECORDS_EACH records on PARTITIONS_EACH partitions and a commit. Every producer has a thread and a
 * transactional id of its own, and begins the next transaction when the last one is committed. */
#include "load.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define RECORDS_EACH 5
#define PARTITIONS_EACH 2
#define RECORD_SIZE 100
#define WARM_UP 20
#define CALL_MS 60000
#define MAX_PER_PRODUCER 1000000

struct producer {
  const struct job *job;
  int number;
  pthread_t thread;
  long committed;
  double *ms;
};

static pthread_barrier_t ready;
static double started, started_cpu;

static double cpu_s(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void check(rd_kafka_error_t *error, const char *what) {
  if (error) die("%s: %s", what, rd_kafka_error_string(error));
}

static rd_kafka_t *new_transactional(const struct job *job, int number, struct deliveries *deliveries) {
  char id[64];
  snprintf(id, sizeof id, "load-%d", number);
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  set(conf, "transactional.id", id);
  set(conf, "linger.ms", "0");
  set(conf, "queue.buffering.max.messages", "2000000");
  rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
  rd_kafka_conf_set_opaque(conf, deliveries);
  rd_kafka_t *client = new_client(job, RD_KAFKA_PRODUCER, conf);
  check(rd_kafka_init_transactions(client, CALL_MS), "init");
  return client;
}

static void one_transaction(rd_kafka_t *client, rd_kafka_topic_t *topic, int first, int partitions, char *payload) {
  check(rd_kafka_begin_transaction(client), "begin");
  for (int i = 0; i < RECORDS_EACH; i++) {
    int partition = (first + i % PARTITIONS_EACH) % partitions;
    if (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, payload, RECORD_SIZE, NULL, 0, NULL))
      die("%s", rd_kafka_err2str(rd_kafka_last_error()));
  }
  check(rd_kafka_commit_transaction(client, CALL_MS), "commit");
}

static void *run_producer(void *argument) {
  struct producer *self = argument;
  struct deliveries deliveries = {0, 0};
  rd_kafka_t *client = new_transactional(self->job, self->number, &deliveries);
  rd_kafka_topic_t *topic = rd_kafka_topic_new(client, self->job->topic, NULL);
  int partitions = partition_count(client, topic), first = self->number * PARTITIONS_EACH;
  char *payload = new_payload(RECORD_SIZE);

  for (int i = 0; i < WARM_UP; i++) one_transaction(client, topic, first, partitions, payload);
  pthread_barrier_wait(&ready);
  if (self->number == 0) {
    started = now_s();
    started_cpu = cpu_s();
  }
  pthread_barrier_wait(&ready);
  double before = now_s(), end = started + (double)self->job->records;
  while (before < end && self->committed < MAX_PER_PRODUCER) {
    one_transaction(client, topic, first, partitions, payload);
    double after = now_s();
    self->ms[self->committed++] = (after - before) * 1e3;
    before = after;
  }
  if (deliveries.failed) die("%ld deliveries failed", deliveries.failed);
  free(payload);
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(client);
  return NULL;
}

/* RECORDS is the number of seconds, SIZE the number of producers. */
int small_transactions(const struct job *job) {
  int count = (int)job->size;
  struct producer *producers = calloc((size_t)count, sizeof *producers);
  pthread_barrier_init(&ready, NULL, (unsigned)count);
  for (int i = 0; i < count; i++) {
    producers[i] = (struct producer){.job = job, .number = i, .ms = malloc(MAX_PER_PRODUCER * sizeof(double))};
    if (pthread_create(&producers[i].thread, NULL, run_producer, &producers[i])) die("no thread");
  }
  long total = 0;
  for (int i = 0; i < count; i++) {
    pthread_join(producers[i].thread, NULL);
    total += producers[i].committed;
  }
  double used_ms = (cpu_s() - started_cpu) * 1e3;
  double *ms = malloc((size_t)total * sizeof *ms);
  long at = 0;
  for (int i = 0; i < count; i++) {
    for (long each = 0; each < producers[i].committed; each++) ms[at++] = producers[i].ms[each];
    free(producers[i].ms);
  }
  qsort(ms, (size_t)total, sizeof *ms, by_value);
  printf("{\"mode\": \"small\", \"transactions\": %ld, \"per_s\": %.2f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, "
         "\"client_cpu_ms_each\": %.4f}\n",
         total, (double)total / (double)job->records, ms[total / 2], ms[total * 99 / 100], used_ms / (double)total);
  free(ms);
  free(producers);
  return 0;
}

/* RECORDS records over all partitions of the topic in a single transaction. */
int wide_transaction(const struct job *job) {
  struct deliveries deliveries = {0, 0};
  rd_kafka_t *client = new_transactional(job, 0, &deliveries);
  rd_kafka_topic_t *topic = rd_kafka_topic_new(client, job->topic, NULL);
  int partitions = partition_count(client, topic);
  char *payload = new_payload(job->size);

  double start = now_s();
  check(rd_kafka_begin_transaction(client), "begin");
  for (long i = 0; i < job->records; i++) {
    while (rd_kafka_produce(topic, (int32_t)(i % partitions), RD_KAFKA_MSG_F_COPY, payload, job->size, NULL, 0, NULL)) {
      if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) die("%s", rd_kafka_err2str(rd_kafka_last_error()));
      rd_kafka_poll(client, 10);
    }
    if (i % 1024 == 0) rd_kafka_poll(client, 0);
  }
  if (rd_kafka_flush(client, CALL_MS)) die("not all records were acked");
  double written = now_s();
  check(rd_kafka_commit_transaction(client, CALL_MS), "commit");
  double committed = now_s();
  /* The next one of this id can only begin when every partition has the marker. */
  check(rd_kafka_begin_transaction(client), "begin");
  rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, payload, job->size, NULL, 0, NULL);
  check(rd_kafka_commit_transaction(client, CALL_MS), "commit");
  double next = now_s();

  if (deliveries.failed) die("%ld deliveries failed", deliveries.failed);
  printf("{\"mode\": \"wide\", \"write_s\": %.4f, \"commit_s\": %.4f, \"next_s\": %.4f}\n", written - start,
         committed - written, next - committed);
  free(payload);
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(client);
  return 0;
}

/* Loads a Kafka-speaking broker through librdkafka and prints one JSON object.
 *
 *   load produce BOOTSTRAP TOPIC RECORDS SIZE [key=value ...]   all partitions, acks=all, as fast as they are acked
 *   load consume BOOTSTRAP TOPIC RECORDS SIZE [key=value ...]   every partition from its start until RECORDS were read
 *   load group   BOOTSTRAP TOPIC RECORDS SIZE [key=value ...]   the same as the only member of a new consumer group
 *   load fetch   BOOTSTRAP TOPIC RECORDS SIZE [key=value ...]   a raw fetch loop, see fetch.c
 *   load latency BOOTSTRAP TOPIC RECORDS SIZE [key=value ...]   partition 0, one record at a time, acks=all
 *   load wide    BOOTSTRAP TOPIC RECORDS SIZE [key=value ...]   all partitions in a single transaction
 *   load small   BOOTSTRAP TOPIC SECONDS PRODUCERS [key=value ...]   small transactions, see transactions.c
 *
 * "consume" uses partitions directly and no consumer group, so only Metadata, ListOffsets and Fetch are needed.
 * "group" subscribes and commits as librdkafka does by itself; its clock starts with the first record.
 * The pairs are librdkafka settings and come after the ones chosen here. */
#include "load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 10000
#define QUEUE_FULL_PAUSE_MS 5

double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("load: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
  char why[512];
  if (rd_kafka_conf_set(conf, key, value, why, sizeof why) != RD_KAFKA_CONF_OK) die("%s", why);
}

void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
  struct deliveries *deliveries = opaque;
  (void)client;
  if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    deliveries->acked++;
  } else if (deliveries->failed++ == 0) {
    fprintf(stderr, "load: first failed delivery: %s\n", rd_kafka_err2str(message->err));
  }
}

rd_kafka_t *new_client(const struct job *job, rd_kafka_type_t type, rd_kafka_conf_t *conf) {
  char why[512];
  set(conf, "bootstrap.servers", job->bootstrap);
  for (int i = 0; i < job->settings; i++) {
    const char *equals = strchr(job->setting[i], '=');
    if (!equals) die("'%s' is not key=value", job->setting[i]);
    char *key = strndup(job->setting[i], (size_t)(equals - job->setting[i]));
    set(conf, key, equals + 1);
    free(key);
  }
  rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
  if (!client) die("%s", why);
  return client;
}

/* Waits for metadata, so that connecting is not counted as work, and returns the number of partitions. */
int partition_count(rd_kafka_t *client, rd_kafka_topic_t *topic) {
  const struct rd_kafka_metadata *metadata;
  rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, 30000);
  if (error) die("metadata: %s", rd_kafka_err2str(error));
  if (metadata->topic_cnt != 1 || metadata->topics[0].err || !metadata->topics[0].partition_cnt)
    die("topic %s is not there", rd_kafka_topic_name(topic));
  int count = metadata->topics[0].partition_cnt;
  rd_kafka_metadata_destroy(metadata);
  return count;
}

char *new_payload(size_t size) {
  char *payload = malloc(size ? size : 1);
  for (size_t i = 0; i < size; i++) payload[i] = (char)('a' + rand() % 16);
  return payload;
}

void print_rate(const char *mode, long records, double bytes, double seconds) {
  printf("{\"mode\": \"%s\", \"records\": %ld, \"bytes\": %.0f, \"seconds\": %.4f, "
         "\"mb_per_s\": %.2f, \"records_per_s\": %.0f}\n",
         mode, records, bytes, seconds, bytes / 1e6 / seconds, (double)records / seconds);
}

static rd_kafka_t *new_producer(const struct job *job, struct deliveries *deliveries, const char *linger_ms) {
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  set(conf, "acks", "all");
  set(conf, "linger.ms", linger_ms);
  set(conf, "queue.buffering.max.messages", "1000000");
  set(conf, "queue.buffering.max.kbytes", "262144");
  rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
  rd_kafka_conf_set_opaque(conf, deliveries);
  return new_client(job, RD_KAFKA_PRODUCER, conf);
}

static int produce(const struct job *job) {
  struct deliveries deliveries = {0, 0};
  rd_kafka_t *client = new_producer(job, &deliveries, "5");
  rd_kafka_topic_t *topic = rd_kafka_topic_new(client, job->topic, NULL);
  partition_count(client, topic);
  char *payload = new_payload(job->size);

  rd_kafka_message_t *messages = calloc(BATCH, sizeof *messages);
  for (int i = 0; i < BATCH; i++) {
    messages[i].payload = payload;
    messages[i].len = job->size;
  }

  double start = now_s();
  for (long sent = 0; sent < job->records;) {
    int count = job->records - sent < BATCH ? (int)(job->records - sent) : BATCH;
    int taken = rd_kafka_produce_batch(topic, RD_KAFKA_PARTITION_UA, 0, messages, count);
    sent += taken;
    for (int i = 0; taken < count && i < count; i++)
      if (messages[i].err && messages[i].err != RD_KAFKA_RESP_ERR__QUEUE_FULL) die("%s", rd_kafka_err2str(messages[i].err));
    /* All deliveries are reported, and here: reports are freed by this thread then, not by the one that sends. */
    rd_kafka_poll(client, taken < count ? QUEUE_FULL_PAUSE_MS : 0);
  }
  rd_kafka_resp_err_t unfinished = rd_kafka_flush(client, (int)(GIVE_UP_AFTER_S * 1000));
  double seconds = now_s() - start;

  if (deliveries.acked != job->records || unfinished)
    die("%ld deliveries failed, %d records were not acked", deliveries.failed, rd_kafka_outq_len(client));
  print_rate(job->mode, job->records, (double)job->records * (double)job->size, seconds);
  free(messages);
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(client);
  free(payload);
  return 0;
}

static rd_kafka_conf_t *consumer_conf(void) {
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  set(conf, "fetch.message.max.bytes", "4194304");
  set(conf, "queued.max.messages.kbytes", "131072");
  set(conf, "queued.min.messages", "1000000");
  return conf;
}

static int consume(const struct job *job) {
  rd_kafka_conf_t *conf = consumer_conf();
  rd_kafka_t *client = new_client(job, RD_KAFKA_CONSUMER, conf);
  rd_kafka_topic_t *topic = rd_kafka_topic_new(client, job->topic, NULL);
  int partitions = partition_count(client, topic);
  rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
  rd_kafka_message_t **messages = malloc(BATCH * sizeof *messages);
  long received = 0;
  double bytes = 0;

  double start = now_s();
  for (int partition = 0; partition < partitions; partition++)
    if (rd_kafka_consume_start_queue(topic, partition, RD_KAFKA_OFFSET_BEGINNING, queue))
      die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
  while (received < job->records) {
    ssize_t count = rd_kafka_consume_batch_queue(queue, 1000, messages, BATCH);
    if (count < 0) die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
    for (ssize_t i = 0; i < count; i++) {
      if (!messages[i]->err) {
        received++;
        bytes += (double)messages[i]->len;
      }
      rd_kafka_message_destroy(messages[i]);
    }
    if (now_s() - start > GIVE_UP_AFTER_S) die("only %ld of %ld records came", received, job->records);
  }
  double seconds = now_s() - start;

  for (int partition = 0; partition < partitions; partition++) rd_kafka_consume_stop(topic, partition);
  print_rate(job->mode, received, bytes, seconds);
  free(messages);
  rd_kafka_queue_destroy(queue);
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(client);
  return 0;
}

static int consume_in_group(const struct job *job) {
  char group[64];
  snprintf(group, sizeof group, "load-%.6f", now_s());
  rd_kafka_conf_t *conf = consumer_conf();
  set(conf, "group.id", group);
  set(conf, "auto.offset.reset", "earliest");
  rd_kafka_t *client = new_client(job, RD_KAFKA_CONSUMER, conf);
  rd_kafka_poll_set_consumer(client);
  rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
  rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(topics, job->topic, RD_KAFKA_PARTITION_UA);
  rd_kafka_resp_err_t error = rd_kafka_subscribe(client, topics);
  if (error) die("subscribe: %s", rd_kafka_err2str(error));
  rd_kafka_message_t **messages = malloc(BATCH * sizeof *messages);
  long received = 0, counted = 0;
  double bytes = 0, asked = now_s(), start = 0;

  while (received < job->records) {
    ssize_t count = rd_kafka_consume_batch_queue(queue, 1000, messages, BATCH);
    if (count < 0) die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
    for (ssize_t i = 0; i < count; i++) {
      if (!messages[i]->err) {
        received++;
        if (start) {
          counted++;
          bytes += (double)messages[i]->len;
        }
      }
      rd_kafka_message_destroy(messages[i]);
    }
    if (received && !start) start = now_s();
    if (now_s() - asked > GIVE_UP_AFTER_S) die("only %ld of %ld records came", received, job->records);
  }
  double seconds = now_s() - start;

  print_rate(job->mode, counted, bytes, seconds);
  free(messages);
  rd_kafka_consumer_close(client);
  rd_kafka_topic_partition_list_destroy(topics);
  rd_kafka_queue_destroy(queue);
  rd_kafka_destroy(client);
  return 0;
}

int by_value(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static int latency(const struct job *job) {
  struct deliveries deliveries = {0, 0};
  rd_kafka_t *client = new_producer(job, &deliveries, "0");
  rd_kafka_topic_t *topic = rd_kafka_topic_new(client, job->topic, NULL);
  partition_count(client, topic);
  char *payload = new_payload(job->size);
  double *ms = malloc((size_t)job->records * sizeof *ms);

  for (long i = 0; i < job->records; i++) {
    double start = now_s();
    if (rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, payload, job->size, NULL, 0, NULL))
      die("%s", rd_kafka_err2str(rd_kafka_last_error()));
    while (deliveries.acked + deliveries.failed <= i) rd_kafka_poll(client, 100);
    ms[i] = (now_s() - start) * 1e3;
  }
  if (deliveries.failed) die("%ld deliveries failed", deliveries.failed);
  qsort(ms, (size_t)job->records, sizeof *ms, by_value);
  printf("{\"mode\": \"latency\", \"records\": %ld, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, "
         "\"max_ms\": %.4f}\n",
         job->records, ms[job->records / 2], ms[job->records * 99 / 100], ms[job->records * 999 / 1000],
         ms[job->records - 1]);
  free(ms);
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(client);
  free(payload);
  return 0;
}

int main(int count, char **argument) {
  if (count < 6) {
    fputs("usage: load produce|consume|group|fetch|latency|wide BOOTSTRAP TOPIC RECORDS SIZE [key=value ...]\n"
          "       load small BOOTSTRAP TOPIC SECONDS PRODUCERS [key=value ...]\n",
          stderr);
    return 2;
  }
  struct job job = {argument[1], argument[2], argument[3], atol(argument[4]), (size_t)atol(argument[5]),
                    count - 6,   argument + 6};
  if (job.records < 1) die("RECORDS must be at least 1");
  if (!strcmp(job.mode, "produce")) return produce(&job);
  if (!strcmp(job.mode, "consume")) return consume(&job);
  if (!strcmp(job.mode, "group")) return consume_in_group(&job);
  if (!strcmp(job.mode, "fetch")) return raw_fetch(&job);
  if (!strcmp(job.mode, "latency")) return latency(&job);
  if (!strcmp(job.mode, "wide")) return wide_transaction(&job);
  if (!strcmp(job.mode, "small")) return small_transactions(&job);
  die("unknown mode '%s'", job.mode);
  return 2;
}

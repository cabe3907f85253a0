/* What the parts of the load program share. */
#ifndef RUSLO_BENCH_LOAD_H
#define RUSLO_BENCH_LOAD_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>

#define GIVE_UP_AFTER_S 300.0

struct job {
  const char *mode, *bootstrap, *topic;
  long records;
  size_t size;
  int settings;
  char **setting;
};

struct deliveries {
  long acked, failed;
};

double now_s(void);
void die(const char *format, ...);
void set(rd_kafka_conf_t *conf, const char *key, const char *value);
void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque);
rd_kafka_t *new_client(const struct job *job, rd_kafka_type_t type, rd_kafka_conf_t *conf);
int partition_count(rd_kafka_t *client, rd_kafka_topic_t *topic);
char *new_payload(size_t size);
void print_rate(const char *mode, long records, double bytes, double seconds);
int by_value(const void *a, const void *b);

/* fetch.c */
int raw_fetch(const struct job *job);

/* transactions.c */
int small_transactions(const struct job *job);
int wide_transaction(const struct job *job);

#endif

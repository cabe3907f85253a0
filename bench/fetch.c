/* load fetch: a raw fetch loop. Records are counted from the headers of their batches and not decoded, so that
 * the time is the broker's and the kernel's. One connection, the halves of the partitions in turn, so that the
 * broker has the next request while an answer is read. Fetch version 4: the oldest that Kafka 4 answers. */
#include "load.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FETCH 1
#define FETCH_VERSION 4
#define PARTITION_BYTES (4 << 20)
#define ANSWER_BYTES (64 << 20)
#define BATCH_OVERHEAD 12  /* base offset and length come before what the length counts */
#define LAST_OFFSET_DELTA 23
#define RECORD_COUNT 57
#define BATCH_HEADER 61

struct writer {
  char bytes[65536];
  size_t length;
};

struct reader {
  const char *at, *end;
};

static void put(struct writer *out, const void *bytes, size_t length) {
  if (out->length + length > sizeof out->bytes) die("the topic has too many partitions");
  memcpy(out->bytes + out->length, bytes, length);
  out->length += length;
}

static void put_int16(struct writer *out, int16_t value) {
  uint16_t wire = htobe16((uint16_t)value);
  put(out, &wire, sizeof wire);
}

static void put_int32(struct writer *out, int32_t value) {
  uint32_t wire = htobe32((uint32_t)value);
  put(out, &wire, sizeof wire);
}

static void put_int64(struct writer *out, int64_t value) {
  uint64_t wire = htobe64((uint64_t)value);
  put(out, &wire, sizeof wire);
}

static void put_string(struct writer *out, const char *text) {
  put_int16(out, (int16_t)strlen(text));
  put(out, text, strlen(text));
}

static const char *take(struct reader *in, size_t length) {
  if ((size_t)(in->end - in->at) < length) die("the answer is shorter than it says");
  const char *bytes = in->at;
  in->at += length;
  return bytes;
}

static int32_t int32_at(const char *bytes) {
  uint32_t wire;
  memcpy(&wire, bytes, sizeof wire);
  return (int32_t)be32toh(wire);
}

static int64_t int64_at(const char *bytes) {
  uint64_t wire;
  memcpy(&wire, bytes, sizeof wire);
  return (int64_t)be64toh(wire);
}

static int16_t take_int16(struct reader *in) {
  uint16_t wire;
  memcpy(&wire, take(in, sizeof wire), sizeof wire);
  return (int16_t)be16toh(wire);
}

static int32_t take_int32(struct reader *in) { return int32_at(take(in, 4)); }

static int connect_to(const char *bootstrap) {
  char *host = strdup(bootstrap), *colon = strrchr(host, ':');
  if (!colon) die("'%s' is not host:port", bootstrap);
  *colon = 0;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  if (getaddrinfo(host, colon + 1, &hints, &found)) die("no address for %s", bootstrap);
  int socket_fd = socket(found->ai_family, SOCK_STREAM, 0), yes = 1;
  if (socket_fd < 0 || connect(socket_fd, found->ai_addr, found->ai_addrlen)) die("no connection to %s", bootstrap);
  setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  freeaddrinfo(found);
  free(host);
  return socket_fd;
}

static void ask(int socket_fd, const char *topic, const int64_t *position, int first, int last) {
  struct writer out = {.length = 4};
  put_int16(&out, FETCH);
  put_int16(&out, FETCH_VERSION);
  put_int32(&out, first);
  put_string(&out, "load");
  put_int32(&out, -1);   /* replica id: a consumer */
  put_int32(&out, 0);    /* max wait: a half that is read to its end must not hold up the other */
  put_int32(&out, 1);    /* min bytes */
  put_int32(&out, ANSWER_BYTES / 2);
  put(&out, "\0", 1);    /* read uncommitted */
  put_int32(&out, 1);
  put_string(&out, topic);
  put_int32(&out, last - first);
  for (int partition = first; partition < last; partition++) {
    put_int32(&out, partition);
    put_int64(&out, position[partition]);
    put_int32(&out, PARTITION_BYTES);
  }
  uint32_t length = htobe32((uint32_t)(out.length - 4));
  memcpy(out.bytes, &length, sizeof length);
  if (send(socket_fd, out.bytes, out.length, 0) != (ssize_t)out.length) die("the connection ended");
}

static void receive(int socket_fd, char *into, size_t length) {
  while (length) {
    ssize_t count = recv(socket_fd, into, length, 0);
    if (count <= 0) die("the connection ended");
    into += count;
    length -= (size_t)count;
  }
}

/* Counts the whole batches of one partition, moves its position behind them, and returns their bytes. */
static size_t count_batches(const char *at, size_t length, int64_t *position, long *records) {
  const char *start = at, *end = at + length;
  while (end - at >= BATCH_HEADER) {
    int32_t rest = int32_at(at + 8);
    if (rest < BATCH_HEADER - BATCH_OVERHEAD) die("a batch is shorter than its header");
    if (end - at < BATCH_OVERHEAD + rest) break;  /* the last one may be cut */
    *position = int64_at(at) + int32_at(at + LAST_OFFSET_DELTA) + 1;
    *records += int32_at(at + RECORD_COUNT);
    at += BATCH_OVERHEAD + rest;
  }
  return (size_t)(at - start);
}

static size_t take_answer(int socket_fd, char *buffer, int64_t *position, int partitions, long *records) {
  char head[4];
  receive(socket_fd, head, sizeof head);
  int32_t length = int32_at(head);
  if (length < 0 || length > ANSWER_BYTES) die("an answer of %d bytes", length);
  receive(socket_fd, buffer, (size_t)length);
  struct reader in = {buffer, buffer + length};
  take(&in, 8);  /* correlation id, throttle time */
  if (take_int32(&in) != 1) die("the answer has not one topic");
  take(&in, (size_t)take_int16(&in));
  size_t bytes = 0;
  for (int32_t count = take_int32(&in); count > 0; count--) {
    int32_t partition = take_int32(&in);
    int16_t error = take_int16(&in);
    if (error || partition < 0 || partition >= partitions) die("partition %d: error %d", partition, error);
    take(&in, 16);  /* high watermark, last stable offset */
    int32_t aborted = take_int32(&in);
    if (aborted > 0) take(&in, (size_t)aborted * 16);
    int32_t size = take_int32(&in);
    if (size > 0) bytes += count_batches(take(&in, (size_t)size), (size_t)size, position + partition, records);
  }
  return bytes;
}

int raw_fetch(const struct job *job) {
  rd_kafka_t *client = new_client(job, RD_KAFKA_CONSUMER, rd_kafka_conf_new());
  rd_kafka_topic_t *topic = rd_kafka_topic_new(client, job->topic, NULL);
  int partitions = partition_count(client, topic), middle = (partitions + 1) / 2;
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(client);
  int socket_fd = connect_to(job->bootstrap);
  char *buffer = malloc(ANSWER_BYTES);
  int64_t *position = calloc((size_t)partitions, sizeof *position);
  long records = 0;
  double bytes = 0;

  double start = now_s();
  ask(socket_fd, job->topic, position, 0, middle);
  if (middle < partitions) ask(socket_fd, job->topic, position, middle, partitions);
  for (int is_second = 0; records < job->records; is_second = middle < partitions && !is_second) {
    bytes += (double)take_answer(socket_fd, buffer, position, partitions, &records);
    ask(socket_fd, job->topic, position, is_second ? middle : 0, is_second ? partitions : middle);
    if (now_s() - start > GIVE_UP_AFTER_S) die("only %ld of %ld records came", records, job->records);
  }
  print_rate(job->mode, records, bytes, now_s() - start);
  free(position);
  free(buffer);
  close(socket_fd);
  return 0;
}

/* A broker that stores nothing: how fast could any broker be, with this client on this machine?
 *
 *   ceiling PORT UPSTREAM_PORT
 *
 * Produce, AddPartitionsToTxn and EndTxn are received and answered at once; every other request is passed on to a real
 * broker, which must advertise PORT. Of these three only versions before the flexible ones are known here, so the
 * answer to ApiVersions is changed to say so. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PRODUCE 0
#define API_VERSIONS 18
#define ADD_PARTITIONS_TO_TXN 24
#define END_TXN 26
#define HIGHEST_PRODUCE_VERSION 7
#define HIGHEST_TXN_VERSION 2
#define LARGEST_FRAME (64 << 20)
#define ANSWER_BYTES 65536

struct side {
  int client, upstream;
};

static int upstream_port;

static void die(const char *what) {
  fprintf(stderr, "ceiling: %s\n", what);
  exit(1);
}

static int16_t int16_at(const char *bytes) {
  uint16_t wire;
  memcpy(&wire, bytes, sizeof wire);
  return (int16_t)be16toh(wire);
}

static int32_t int32_at(const char *bytes) {
  uint32_t wire;
  memcpy(&wire, bytes, sizeof wire);
  return (int32_t)be32toh(wire);
}

static char *put_int16(char *at, int16_t value) {
  uint16_t wire = htobe16((uint16_t)value);
  return (char *)memcpy(at, &wire, sizeof wire) + sizeof wire;
}

static char *put_int32(char *at, int32_t value) {
  uint32_t wire = htobe32((uint32_t)value);
  return (char *)memcpy(at, &wire, sizeof wire) + sizeof wire;
}

static char *put_zeros(char *at, size_t count) { return (char *)memset(at, 0, count) + count; }

static char *copy(char *at, const char *from, size_t count) { return (char *)memcpy(at, from, count) + count; }

static int receive(int socket_fd, char *into, size_t length) {
  while (length) {
    ssize_t count = recv(socket_fd, into, length, MSG_WAITALL);
    if (count <= 0) return 0;
    into += count;
    length -= (size_t)count;
  }
  return 1;
}

static int forward(int socket_fd, const char *bytes, size_t length) {
  while (length) {
    ssize_t count = send(socket_fd, bytes, length, MSG_NOSIGNAL);
    if (count <= 0) return 0;
    bytes += count;
    length -= (size_t)count;
  }
  return 1;
}

static int32_t receive_frame(int socket_fd, char *frame) {
  if (!receive(socket_fd, frame, 4)) return -1;
  int32_t length = int32_at(frame);
  if (length < 8 || length > LARGEST_FRAME) die("a frame of impossible length");
  return receive(socket_fd, frame + 4, (size_t)length) ? length + 4 : -1;
}

static const char *after_string(const char *in) { return in + 2 + (int16_at(in) > 0 ? int16_at(in) : 0); }

static const char *body_of(const char *frame) { return after_string(frame + 12); } /* behind the client id */

static size_t framed(char *answer, const char *end) {
  put_int32(answer, (int32_t)(end - answer - 4));
  return (size_t)(end - answer);
}

/* Every partition of the request, answered as appended at offset 0. */
static size_t ack(const char *frame, char *answer) {
  int version = int16_at(frame + 6);
  if (version > HIGHEST_PRODUCE_VERSION) die("a version of Produce that is not known here");
  const char *in = after_string(body_of(frame)) + 6; /* transactional id; acks, time-out */
  char *out = copy(answer + 4, frame + 8, 4);
  int32_t topics = int32_at(in);
  out = put_int32(out, topics);
  in += 4;
  for (; topics > 0; topics--) {
    size_t name = 2 + (size_t)int16_at(in);
    out = copy(out, in, name);
    in += name;
    int32_t partitions = int32_at(in);
    out = put_int32(out, partitions);
    in += 4;
    for (; partitions > 0; partitions--) {
      out = copy(out, in, 4);
      in += 8 + int32_at(in + 4);
      out = put_int16(out, 0);
      out = put_zeros(out, 8);
      out = put_int32(put_int32(out, -1), -1);  /* no log append time */
      if (version >= 5) out = put_zeros(out, 8);
    }
  }
  return framed(answer, put_int32(out, 0));
}

/* Every partition of the request, answered as added. */
static size_t add_partitions(const char *frame, char *answer) {
  if (int16_at(frame + 6) > HIGHEST_TXN_VERSION) die("a version of AddPartitionsToTxn that is not known here");
  const char *in = after_string(body_of(frame)) + 10; /* transactional id; producer id and epoch */
  char *out = put_int32(copy(answer + 4, frame + 8, 4), 0);
  int32_t topics = int32_at(in);
  out = put_int32(out, topics);
  in += 4;
  for (; topics > 0; topics--) {
    size_t name = 2 + (size_t)int16_at(in);
    out = copy(out, in, name);
    in += name;
    int32_t partitions = int32_at(in);
    out = put_int32(out, partitions);
    in += 4;
    for (; partitions > 0; partitions--, in += 4) out = put_int16(copy(out, in, 4), 0);
  }
  return framed(answer, out);
}

static size_t end_transaction(const char *frame, char *answer) {
  if (int16_at(frame + 6) > HIGHEST_TXN_VERSION) die("a version of EndTxn that is not known here");
  return framed(answer, put_zeros(copy(answer + 4, frame + 8, 4), 6));
}

/* The length of the answer, or 0 when a real broker has to answer. */
static size_t answer_at_once(const char *frame, char *answer) {
  switch (int16_at(frame + 4)) {
    case PRODUCE: return ack(frame, answer);
    case ADD_PARTITIONS_TO_TXN: return add_partitions(frame, answer);
    case END_TXN: return end_transaction(frame, answer);
    default: return 0;
  }
}

static int16_t highest_version(int16_t api) {
  switch (api) {
    case PRODUCE: return HIGHEST_PRODUCE_VERSION;
    case ADD_PARTITIONS_TO_TXN:
    case END_TXN: return HIGHEST_TXN_VERSION;
    default: return INT16_MAX;
  }
}

/* In an answer to ApiVersions. From version 3 its array is a compact one, and each entry ends with (no) tags. */
static void lower_versions(char *frame, int version) {
  char *in = frame + 10; /* behind length, correlation id and error code */
  int flexible = version >= 3, entries = flexible ? in[0] - 1 : int32_at(in);
  if (flexible && (in[0] & 0x80)) die("more APIs than a byte can count");
  for (in += flexible ? 1 : 4; entries > 0; entries--, in += flexible ? 7 : 6) {
    int16_t highest = highest_version(int16_at(in));
    if (int16_at(in + 4) > highest) put_int16(in + 4, highest);
  }
}

static void *serve(void *argument) {
  struct side *side = argument;
  char *frame = malloc(LARGEST_FRAME + 4), *answer = malloc(ANSWER_BYTES);
  for (int32_t length; (length = receive_frame(side->client, frame)) > 0;) {
    size_t answered = answer_at_once(frame, answer);
    if (answered) {
      if (!forward(side->client, answer, answered)) break;
      continue;
    }
    int16_t api = int16_at(frame + 4), version = int16_at(frame + 6);
    if (!forward(side->upstream, frame, (size_t)length)) break;
    if ((length = receive_frame(side->upstream, frame)) < 0) break;
    if (api == API_VERSIONS) lower_versions(frame, version);
    if (!forward(side->client, frame, (size_t)length)) break;
  }
  close(side->client);
  close(side->upstream);
  free(frame);
  free(answer);
  free(side);
  return NULL;
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int main(int count, char **argument) {
  if (count != 3) die("usage: ceiling PORT UPSTREAM_PORT");
  upstream_port = atoi(argument[2]);
  struct sockaddr_in here = loopback(atoi(argument[1])), there = loopback(upstream_port);
  int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 64)) die(strerror(errno));
  for (;;) {
    struct side *side = malloc(sizeof *side);
    pthread_t thread;
    side->client = accept(listener, NULL, NULL);
    side->upstream = socket(AF_INET, SOCK_STREAM, 0);
    if (side->client < 0 || connect(side->upstream, (struct sockaddr *)&there, sizeof there)) die(strerror(errno));
    setsockopt(side->client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(side->upstream, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (pthread_create(&thread, NULL, serve, side)) die("no thread");
    pthread_detach(thread);
  }
}

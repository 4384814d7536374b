/* The cost of durable changes: transactions and checkpoints in a pool, compared with plain stores
 * to it and with files.
 *
 *   persist SPEC --sizes 64,65536 [--iterations N] [--file NAME=PATH ...]
 *
 * Prints a line for each measurement: operation, series, bytes, microseconds (the mean). In the
 * pool: "publish", bytes stored and brought to the device, which no other can beat; "transaction",
 * the same bytes added to an undo log, stored and committed; "checkpoint", written into the copy
 * that is not valid, flushed and committed. Each --file is written, synced, and renamed over the
 * previous one, as programs save without a pool. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <penstock/penstock.h>
#include <penstock/persist.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { max_items = 32 };

struct job {
  penstock_pool_t* pool;
  penstock_object_t* object;
  penstock_undo_log_t* log;
  penstock_checkpoint_t* checkpoint;
  char* data; /* the data to be saved */
  const char* path;
  long bytes;
};

static void fail(const char* what, const char* why) {
  fprintf(stderr, "persist: %s: %s\n", what, why);
  exit(1);
}

static void check(penstock_status_t status, const char* what) {
  if (status != PENSTOCK_OK) fail(what, penstock_last_error());
}

static void publish(struct job* job) {
  check(
      penstock_write(job->pool, penstock_object_data(job->object), job->data, (uint64_t)job->bytes),
      "publish");
}

static void transaction(struct job* job) {
  check(penstock_tx_begin(job->log), "begin");
  check(penstock_tx_add(job->log, job->object, 0, (uint64_t)job->bytes), "add");
  memcpy(penstock_object_data(job->object), job->data, (size_t)job->bytes);
  check(penstock_tx_commit(job->log), "commit");
}

static void checkpoint(struct job* job) {
  check(penstock_checkpoint_begin(job->checkpoint, NULL), "begin of a checkpoint");
  check(penstock_checkpoint_write(job->checkpoint, 0, job->data, (uint64_t)job->bytes),
        "write of a checkpoint");
  check(penstock_checkpoint_flush(job->checkpoint), "flush of a checkpoint");
  check(penstock_checkpoint_commit(job->checkpoint, 0), "commit of a checkpoint");
}

static void file(struct job* job) {
  char young[4096];
  snprintf(young, sizeof young, "%s.new", job->path);
  const int fd = open(young, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) fail(young, strerror(errno));
  for (long done = 0; done < job->bytes;) {
    const ssize_t wrote = write(fd, job->data + done, (size_t)(job->bytes - done));
    if (wrote <= 0) fail(young, strerror(errno));
    done += wrote;
  }
  if (fdatasync(fd) != 0 || close(fd) != 0 || rename(young, job->path) != 0)
    fail(young, strerror(errno));
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void measure(struct job* job, const char* op, const char* series, void (*once)(struct job*),
                    long iterations) {
  once(job);
  const double start = now_us();
  for (long i = 0; i < iterations; ++i) {
    job->data[i % job->bytes] ^= 1;
    once(job);
  }
  printf("%s %s %ld %.4f\n", op, series, job->bytes, (now_us() - start) / (double)iterations);
  fflush(stdout);
}

static void in_pool(struct job* job, long iterations) {
  char name[PENSTOCK_MAX_NAME_BYTES + 1];
  const penstock_object_options_t options = {
      .struct_bytes = sizeof options, .lifetime = PENSTOCK_LIFETIME_POOL, .alignment = 4096};
  snprintf(name, sizeof name, "persist-bench.%ld", job->bytes);
  check(penstock_arena_create(job->pool, name, (uint64_t)job->bytes, &options, &job->object),
        "an object");
  measure(job, "publish", "pool", publish, iterations);
  measure(job, "transaction", "pool", transaction, iterations);
  check(penstock_tx_release(job->log, NULL), "release");
  check(penstock_arena_destroy(job->object), "an object's end");
  strcat(name, ".copies");
  check(penstock_checkpoint_create(job->pool, name, (uint64_t)job->bytes, PENSTOCK_LIFETIME_POOL,
                                   &job->checkpoint),
        "a checkpoint");
  measure(job, "checkpoint", "pool", checkpoint, iterations);
  check(penstock_checkpoint_destroy(job->checkpoint), "a checkpoint's end");
}

int main(int argc, char** argv) {
  static const struct option known[] = {{"sizes", required_argument, NULL, 's'},
                                        {"iterations", required_argument, NULL, 'i'},
                                        {"file", required_argument, NULL, 'f'},
                                        {NULL, 0, NULL, 0}};
  long sizes[max_items] = {0}, largest = 0, iterations = 50;
  int size_count = 0, file_count = 0;
  char* files[max_items];
  struct job job = {0};
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    if (option == 's') {
      for (char* item = strtok(optarg, ","); item && size_count < max_items;
           item = strtok(NULL, ",")) {
        const long bytes = (atol(item) + 63) / 64 * 64;
        sizes[size_count++] = bytes;
        if (bytes > largest) largest = bytes;
      }
    } else if (option == 'i') {
      iterations = atol(optarg);
    } else if (option == 'f' && file_count < max_items && strchr(optarg, '=')) {
      files[file_count++] = optarg;
    } else {
      fail("usage", "persist SPEC --sizes N,... [--iterations N] [--file NAME=PATH ...]");
    }
  }
  if (optind + 1 != argc || size_count == 0 || iterations < 1)
    fail("usage", "name a pool and sizes");
  check(penstock_pool_attach(argv[optind], NULL, &job.pool), "the pool");
  check(penstock_undo_log_open(job.pool, (uint64_t)(4 * largest + (1 << 20)), &job.log),
        "an undo log");
  job.data = malloc((size_t)largest);
  if (!job.data) fail("memory", strerror(errno));
  memset(job.data, 1, (size_t)largest); /* real pages: untouched ones all read one page of zeros */
  for (int i = 0; i < size_count; ++i) {
    job.bytes = sizes[i];
    in_pool(&job, iterations);
    for (int k = 0; k < file_count; ++k) {
      const char* const equals = strchr(files[k], '=');
      char series[64];
      snprintf(series, sizeof series, "%.*s", (int)(equals - files[k]), files[k]);
      job.path = equals + 1;
      measure(&job, "checkpoint", series, file, iterations);
    }
  }
  free(job.data);
  penstock_undo_log_close(job.log);
  penstock_pool_detach(job.pool);
  return 0;
}

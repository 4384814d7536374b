/* Two processes, one object: a writer makes it; a reader, possibly on another host, finds it by
 * name and reads it. Uses the six published calls; the processes communicate only by loads and
 * stores.
 *
 *   penstock pool create shm:demo --size 64M
 *   PENSTOCK_POOL=shm:demo ./arena_two_processes
 *
 * Without PENSTOCK_POOL it makes a small pool of its own and removes it at the end.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "penstock/cxl_shm.h"

enum { values = 100000, poll_limit = 20000 };

/* Line 0 of the object announces that the values behind it are complete. */
typedef struct {
  uint64_t ready;
  uint64_t unused[7];
  uint64_t value[values];
} letter_t;

static int failed(const char* what) {
  fprintf(stderr, "%s: %s: %s\n", what, strerror(errno), penstock_last_error());
  return 1;
}

static void wait_a_little(void) {
  const struct timespec pause = {0, 1000000};
  nanosleep(&pause, NULL);
}

static int writer(const char* name) {
  cxl_shm_obj_t object;
  letter_t* letter;
  uint64_t i;
  if (cxl_shm_init() != 0) return failed("writer: cxl_shm_init");
  if (cxl_shm_create(name, sizeof(letter_t), &object) != 0) return failed("writer: cxl_shm_create");
  letter = object.addr;
  for (i = 0; i < values; ++i) letter->value[i] = i * i;
  if (cxl_shm_publish(&object, offsetof(letter_t, value), sizeof letter->value) != 0)
    return failed("writer: publish values");
  letter->ready = 1; /* only now: the values are at the device */
  if (cxl_shm_publish(&object, 0, sizeof letter->ready) != 0)
    return failed("writer: publish ready");
  cxl_shm_close(&object);
  return cxl_shm_finalize() == 0 ? 0 : failed("writer: cxl_shm_finalize");
}

static int open_when_there(const char* name, cxl_shm_obj_t* object) {
  int polls;
  for (polls = 0; polls < poll_limit; ++polls) {
    if (cxl_shm_open(name, object) == 0) return 0;
    if (errno != ENOENT) break;
    wait_a_little();
  }
  return -1;
}

static int wait_until_ready(const cxl_shm_obj_t* object) {
  const volatile letter_t* letter = object->addr;
  int polls;
  for (polls = 0; polls < poll_limit; ++polls) {
    if (cxl_shm_observe(object, 0, sizeof letter->ready) != 0) return -1;
    if (letter->ready == 1) return 0;
    wait_a_little();
  }
  errno = ETIMEDOUT;
  return -1;
}

static int reader(const char* name) {
  cxl_shm_obj_t object;
  const letter_t* letter;
  uint64_t i, wrong = 0;
  if (cxl_shm_init() != 0) return failed("reader: cxl_shm_init");
  if (open_when_there(name, &object) != 0) return failed("reader: cxl_shm_open");
  if (wait_until_ready(&object) != 0) return failed("reader: wait");
  if (cxl_shm_observe(&object, 0, sizeof(letter_t)) != 0) return failed("reader: observe");
  letter = object.addr;
  for (i = 0; i < values; ++i) wrong += letter->value[i] != i * i;
  printf("reader: %d values of object \"%s\" (%zu bytes), %llu wrong\n", values, name, object.size,
         (unsigned long long)wrong);
  if (cxl_shm_destroy(&object) != 0) return failed("reader: cxl_shm_destroy");
  if (cxl_shm_open(name, &object) == 0 || errno != ENOENT) return failed("reader: still there");
  if (cxl_shm_finalize() != 0) return failed("reader: cxl_shm_finalize");
  return wrong == 0 ? 0 : 1;
}

/* Each process must attach by itself, so fork first. */
static pid_t start(int (*body)(const char*), const char* name) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int status = body(name);
    fflush(stdout);
    _exit(status);
  }
  return pid;
}

static int succeeded(pid_t pid) {
  int status = 1;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static int make_own_pool(char* spec, size_t size) {
  penstock_pool_options_t options;
  memset(&options, 0, sizeof options);
  options.struct_bytes = sizeof options;
  options.bytes = 16u << 20;
  snprintf(spec, size, "shm:penstock-example-%ld", (long)getpid());
  if (penstock_pool_create(spec, &options) != PENSTOCK_OK) {
    fprintf(stderr, "penstock_pool_create: %s\n", penstock_last_error());
    return -1;
  }
  return setenv("PENSTOCK_POOL", spec, 1);
}

int main(void) {
  char spec[64] = "", name[64];
  pid_t read_by, written_by;
  int good;
  if (getenv("PENSTOCK_POOL") == NULL && make_own_pool(spec, sizeof spec) != 0) return 1;
  snprintf(name, sizeof name, "letter.%ld", (long)getpid());
  read_by = start(reader, name);
  written_by = start(writer, name);
  good = succeeded(written_by);
  good = succeeded(read_by) && good;
  if (spec[0] != '\0') penstock_pool_remove(spec, 1);
  return good ? 0 : 1;
}

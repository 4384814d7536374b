/* A library to preload: a rank that is descheduled in the midst of a meeting. SLOW="1:300,2:1500":
 * after its first write of more than a word its next read begins 300 ms later, after its second one
 * 1,500 ms. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int writes, slept[64];

int penstock_write(void* pool, void* to, const void* from, uint64_t bytes) {
  int (*next)(void*, void*, const void*, uint64_t) =
      (int (*)(void*, void*, const void*, uint64_t))dlsym(RTLD_NEXT, "penstock_write");
  const int status = next(pool, to, from, bytes);
  if (bytes > 8) ++writes;
  return status;
}

int penstock_read(void* pool, void* to, const void* from, uint64_t bytes) {
  int (*next)(void*, void*, const void*, uint64_t) =
      (int (*)(void*, void*, const void*, uint64_t))dlsym(RTLD_NEXT, "penstock_read");
  for (const char* at = getenv("SLOW"); at != NULL && *at != 0;) {
    const int write = atoi(at), ms = atoi(strchr(at, ':') + 1);
    if (write == writes && !slept[write]) {
      slept[write] = 1;
      usleep(1000u * (unsigned)ms);
    }
    at = strchr(at, ',');
    if (at != NULL) ++at;
  }
  return next(pool, to, from, bytes);
}

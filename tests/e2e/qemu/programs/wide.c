/* An object larger than one of the pool's devices, so that it lies on both: wide NAME MIB
 * write|read|take
 *
 * `write` makes it and puts a line that tells its place at every 64 KiB; `read`, on another host,
 * checks them all; `take` checks them and removes the object. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penstock/penstock.h"

enum { step = 64 << 10, line_words = 8 };

static void check(penstock_status_t status, const char* what) {
  if (status == PENSTOCK_OK) return;
  fprintf(stderr, "wide: %s: %s\n", what, penstock_last_error());
  exit(1);
}

static void line_of(uint64_t offset, uint64_t* line) {
  for (uint64_t i = 0; i < line_words; ++i) line[i] = (offset + i + 1) * 0x9e3779b97f4a7c15u;
}

int main(int argc, char** argv) {
  penstock_object_options_t options = {.struct_bytes = sizeof options, .skip_zeroing = 1};
  penstock_object_t* object = NULL;
  penstock_pool_t* pool = NULL;
  uint64_t expected[line_words], found[line_words], wrong = 0;
  if (argc != 4) return 2;
  const uint64_t object_bytes = strtoull(argv[2], NULL, 10) << 20;
  const int writes = strcmp(argv[3], "write") == 0;
  check(penstock_pool_attach(NULL, NULL, &pool), "attach");
  if (writes) {
    check(penstock_arena_create(pool, argv[1], object_bytes, &options, &object), "create");
  } else {
    check(penstock_arena_open(pool, argv[1], &object), "open");
  }
  char* data = penstock_object_data(object);
  for (uint64_t offset = 0; offset < object_bytes; offset += step) {
    line_of(offset, expected);
    if (writes) {
      check(penstock_write(pool, data + offset, expected, sizeof expected), "write");
    } else {
      check(penstock_read(pool, found, data + offset, sizeof found), "read");
      wrong += memcmp(found, expected, sizeof found) != 0;
    }
  }
  printf("wide: %s %llu lines over %llu MiB, %llu wrong\n", writes ? "wrote" : "read",
         (unsigned long long)(object_bytes / step), (unsigned long long)(object_bytes >> 20),
         (unsigned long long)wrong);
  if (strcmp(argv[3], "take") == 0) {
    check(penstock_arena_destroy(object), "destroy");
  } else {
    penstock_arena_close(object);
  }
  penstock_pool_detach(pool);
  return wrong != 0;
}

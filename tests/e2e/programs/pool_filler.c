/* Another user of the pool of PENSTOCK_POOL: pool_filler OBJECTS BYTES fills new objects, prints
 * "filled", waits until its standard input ends, and prints how many bytes have changed meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penstock/penstock.h"

#define CHECK(call) \
  if ((call) != PENSTOCK_OK) return fprintf(stderr, "%s\n", penstock_last_error()), 1

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int count = atoi(argv[1]);
  const uint64_t bytes = strtoull(argv[2], NULL, 10);
  penstock_pool_t* pool = NULL;
  penstock_object_t** const objects = calloc((size_t)count, sizeof *objects);
  CHECK(penstock_pool_attach(NULL, NULL, &pool));
  for (int i = 0; i < count; ++i) {
    char name[32];
    snprintf(name, sizeof name, "filler.%d", i);
    CHECK(penstock_arena_create(pool, name, bytes, NULL, &objects[i]));
    memset(penstock_object_data(objects[i]), 0xab, bytes);
    CHECK(penstock_publish(pool, penstock_object_data(objects[i]), bytes));
  }
  printf("filled\n");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  uint64_t changed = 0;
  for (int i = 0; i < count; ++i) {
    const unsigned char* const data = penstock_object_data(objects[i]);
    CHECK(penstock_observe(pool, data, bytes));
    for (uint64_t k = 0; k < bytes; ++k) changed += data[k] != 0xab;
    CHECK(penstock_arena_destroy(objects[i]));
  }
  printf("%llu changed\n", (unsigned long long)changed);
  penstock_pool_detach(pool);
  free(objects);
  return 0;
}

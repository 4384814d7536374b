/* How the ranks of the test programs find each other: the unique id, in a folder. */
#ifndef NCCL_MEET_H
#define NCCL_MEET_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "nccl_interface.h"

#define CHECK(call)                                                                         \
  do {                                                                                      \
    const ncclResult_t found_ = (call);                                                     \
    if (found_ != ncclSuccess) {                                                            \
      fprintf(stderr, "line %d: %s: %s: %s\n", __LINE__, #call, ncclGetErrorString(found_), \
              ncclGetLastError(NULL));                                                      \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

static inline ncclUniqueId meet(int rank, const char* folder) {
  char path[512], made[520];
  ncclUniqueId id;
  if (getenv("NCCL_COMM_ID") != NULL) { /* every rank makes the same */
    CHECK(ncclGetUniqueId(&id));
    return id;
  }
  snprintf(path, sizeof path, "%s/id", folder);
  snprintf(made, sizeof made, "%s.new", path);
  if (rank == 0) {
    CHECK(ncclGetUniqueId(&id));
    FILE* const file = fopen(made, "wb");
    if (file == NULL || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) != 0 ||
        rename(made, path) != 0)
      exit(1);
    return id;
  }
  FILE* file;
  while ((file = fopen(path, "rb")) == NULL) usleep(1000);
  if (fread(&id, sizeof id, 1, file) != 1) exit(1);
  fclose(file);
  return id;
}

#endif

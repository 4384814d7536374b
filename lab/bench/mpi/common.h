/* Shared by the benchmarks that are MPI programs: options, sizes, and contents that identify their
 * place. */
#pragma once

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  window_ops = 64 /* operations between two synchronizations, as OSU has it */,
  max_items = 32
};

struct sizes {
  int count;
  long bytes[max_items];
};

/* Prints an error in the options, which all ranks find, and ends them. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void refuse(const char* format, ...) {
  int rank;
  va_list arguments;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  va_start(arguments, format);
  if (rank == 0) {
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
  }
  va_end(arguments);
  MPI_Finalize();
  exit(2);
}

/* Prints an error that only this rank has found, and ends the job. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  usleep(200000); /* mpiexec may drop output written just before the end */
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

/* A whole number of at least 1. */
static inline long positive(const char* option, const char* text) {
  char* end;
  const long number = strtol(text, &end, 10);
  if (end == text || *end != '\0' || number < 1)
    refuse("%s: '%s' is no number above 0", option, text);
  return number;
}

/* The index of this name among `count`. */
static inline int named(const char* option, const char* text, const char* const* names, int count) {
  for (int i = 0; i < count; ++i) {
    if (strcmp(text, names[i]) == 0) return i;
  }
  refuse("%s: '%s' is unknown; the first known is %s", option, text, names[0]);
}

/* "8,4096" */
static inline struct sizes parse_sizes(const char* text) {
  struct sizes sizes = {0};
  char* copy = strdup(text);
  for (char* item = strtok(copy, ","); item; item = strtok(NULL, ",")) {
    if (sizes.count == max_items) refuse("--sizes: at most %d", max_items);
    sizes.bytes[sizes.count++] = positive("--sizes", item);
  }
  if (sizes.count == 0) refuse("--sizes: none is named");
  free(copy);
  return sizes;
}

static inline long largest(const struct sizes* sizes) {
  long most = 0;
  for (int i = 0; i < sizes->count; ++i) {
    if (sizes->bytes[i] > most) most = sizes->bytes[i];
  }
  return most;
}

/* The byte at index `at` of the contents of this seed. */
static inline unsigned char content(unsigned seed, long at) {
  return (unsigned char)(seed * 37u + (unsigned)at * 7u + (unsigned)(at / 251));
}

static inline void fill(char* to, long bytes, unsigned seed) {
  for (long i = 0; i < bytes; ++i) to[i] = (char)content(seed, i);
}

/* Returns the index of the first byte that is not as fill() left it; -1: none. */
static inline long first_wrong(const char* from, long bytes, unsigned seed) {
  for (long i = 0; i < bytes; ++i) {
    if ((unsigned char)from[i] != content(seed, i)) return i;
  }
  return -1;
}

/* Memory of this process alone. */
static inline char* host_memory(long bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, 4096, (size_t)bytes)) fail("no memory for %ld bytes", bytes);
  return memory;
}

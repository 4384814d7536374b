/* Many windows at once: each is put to round the ring, in an epoch that fences delimit, and some
 * in one that a post and a start open, or under a lock. usage: many_windows WINDOWS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { bytes = 64 };

static long resident_bytes(void) {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file != NULL) fclose(file);
  return resident * 4096;
}

static void put(MPI_Win window, int to, const int* value) {
  MPI_Put(value, 1, MPI_INT, to, 0, 1, MPI_INT, window);
}

int main(int argc, char** argv) {
  int rank, size, value, wrong = 0, all_wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int count = argc > 1 ? atoi(argv[1]) : 100;
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Win* windows = malloc((size_t)count * sizeof *windows);
  int** memory = malloc((size_t)count * sizeof *memory);
  MPI_Group world, origin, target;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &left, &origin);
  MPI_Group_incl(world, 1, &right, &target);

  long before = 0;
  for (int i = 0; i < count; ++i) {
    if (i == count / 10) before = resident_bytes();
    MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory[i], &windows[i]);
  }
  const long each = (resident_bytes() - before) / (count - count / 10);
  for (int i = 0; i < count; ++i) {
    value = rank + i;
    if (i % 3 == 0) {
      MPI_Win_fence(0, windows[i]);
      put(windows[i], right, &value);
      MPI_Win_fence(0, windows[i]);
    } else if (i % 3 == 1) {
      MPI_Win_post(origin, 0, windows[i]);
      MPI_Win_start(target, 0, windows[i]);
      put(windows[i], right, &value);
      MPI_Win_complete(windows[i]);
      MPI_Win_wait(windows[i]);
    } else {
      MPI_Win_lock(MPI_LOCK_SHARED, right, 0, windows[i]);
      put(windows[i], right, &value);
      MPI_Win_unlock(right, windows[i]);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) {
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, windows[i]);
    wrong += memory[i][0] != left + i;
    MPI_Win_unlock(rank, windows[i]);
  }
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) MPI_Win_free(&windows[i]);
  MPI_Group_free(&target);
  MPI_Group_free(&origin);
  MPI_Group_free(&world);
  free(memory);
  free(windows);
  if (rank == 0)
    printf("many windows: %s: %d windows of %d ranks, %ld B of a process each\n",
           all_wrong == 0 ? "ok" : "wrong", count, size, each);
  MPI_Finalize();
  return all_wrong != 0;
}

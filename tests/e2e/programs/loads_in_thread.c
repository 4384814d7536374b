/* A thread loads a library whose constructor calls MPI, while the main thread makes the process's
 * first call of MPI. Compiled with LIBRARY it is that library. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void use_mpi(void) {
  MPI_Session session;
  if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) abort();
  MPI_Session_finalize(&session);
}

#ifdef LIBRARY

extern volatile int loading;

__attribute__((constructor)) static void call_mpi(void) {
  loading = 1;
  usleep(300 * 1000); /* so that the main thread's call is under way */
  use_mpi();
}

#else

volatile int loading;

static void* load(void* path) {
  if (dlopen(path, RTLD_NOW) == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    abort();
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t thread;
  if (argc != 2 || pthread_create(&thread, NULL, load, argv[1]) != 0) abort();
  while (!loading) usleep(100);
  use_mpi();
  pthread_join(thread, NULL);
  printf("loaded: ok\n");
  return 0;
}

#endif

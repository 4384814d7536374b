/* Two processes on two hosts, by loads and stores alone: meeting NAME 0|1 [stay]
 *
 * 0 makes the object, the other finds it by name. A letter goes each way, both count under a lock,
 * then 0 removes the object. Each checks every byte that it reads. With `stay` it never comes to
 * the second meeting, where the other waits for it. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "penstock/cxl_shm.h"

enum { words = 8192, turns = 50, line = 64, polls = 60000 };
static const uint64_t wait_ns = 60ull * 1000 * 1000 * 1000;

/* Lines that one side writes alone, and those of the lock and the barrier, which are both sides'.
 */
typedef struct {
  uint64_t letter[2][words];
  uint64_t counter[line / sizeof(uint64_t)];
  char lock[4 * line], barrier[4 * line];
} meeting_t;

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "meeting: %s: %s\n", what, penstock_last_error());
  exit(1);
}

static void open_when_there(const char* name, cxl_shm_obj_t* object) {
  for (int i = 0; i < polls; ++i) {
    if (cxl_shm_open(name, object) == 0) return;
    check(errno == ENOENT, "cxl_shm_open");
    usleep(1000);
  }
  check(0, "the object did not appear");
}

static uint64_t word(int side, uint64_t index) {
  return (index + 1) * 0x9e3779b97f4a7c15u + (uint64_t)side;
}

static void write_letter(const cxl_shm_obj_t* object, int side) {
  meeting_t* meeting = object->addr;
  for (uint64_t i = 0; i < words; ++i) meeting->letter[side][i] = word(side, i);
  check(
      cxl_shm_publish(object, offsetof(meeting_t, letter[side]), sizeof meeting->letter[side]) == 0,
      "publish");
}

static void read_letter(const cxl_shm_obj_t* object, int side) {
  const meeting_t* meeting = object->addr;
  check(
      cxl_shm_observe(object, offsetof(meeting_t, letter[side]), sizeof meeting->letter[side]) == 0,
      "observe");
  for (uint64_t i = 0; i < words; ++i) {
    if (meeting->letter[side][i] == word(side, i)) continue;
    fprintf(stderr, "meeting: word %llu of the letter from side %d is wrong\n",
            (unsigned long long)i, side);
    exit(1);
  }
  printf("meeting: all %d words of the letter from side %d are right\n", words, side);
}

static void count_together(const cxl_shm_obj_t* object, uint32_t side) {
  meeting_t* meeting = object->addr;
  penstock_lock_t* lock = NULL;
  check(penstock_lock_open(object->handle, offsetof(meeting_t, lock), 2, side, &lock) == 0, "lock");
  for (int i = 0; i < turns; ++i) {
    check(penstock_lock_acquire(lock, wait_ns) == 0, "acquire");
    cxl_shm_observe(object, offsetof(meeting_t, counter), line);
    ++meeting->counter[0];
    cxl_shm_publish(object, offsetof(meeting_t, counter), line);
    penstock_lock_release(lock);
  }
  penstock_lock_close(lock);
}

int main(int argc, char** argv) {
  cxl_shm_obj_t object;
  penstock_barrier_t* barrier = NULL;
  if (argc < 3) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  const uint32_t side = argv[2][0] == '1';
  check(cxl_shm_init() == 0, "cxl_shm_init");
  printf("meeting: side %u is attached\n", side);
  if (side == 0) {
    check(cxl_shm_create(argv[1], sizeof(meeting_t), &object) == 0, "cxl_shm_create");
  } else {
    open_when_there(argv[1], &object);
  }
  check(penstock_barrier_open(object.handle, offsetof(meeting_t, barrier), 2, side, &barrier) == 0,
        "barrier");
  write_letter(&object, (int)side);
  check(penstock_barrier_wait(barrier, wait_ns) == 0, "first meeting");
  read_letter(&object, !side);
  count_together(&object, side);
  if (argc > 3) pause();
  check(penstock_barrier_wait(barrier, wait_ns) == 0, "second meeting");
  cxl_shm_observe(&object, offsetof(meeting_t, counter), line);
  const uint64_t counted = ((meeting_t*)object.addr)->counter[0];
  check(counted == 2 * turns, "turns under the lock were lost");
  printf("meeting: %llu turns under the lock\n", (unsigned long long)counted);
  check(penstock_barrier_wait(barrier, wait_ns) == 0, "third meeting");
  penstock_barrier_close(barrier);
  if (side == 0) {
    check(cxl_shm_destroy(&object) == 0, "cxl_shm_destroy");
  } else {
    cxl_shm_close(&object);
  }
  check(cxl_shm_finalize() == 0, "cxl_shm_finalize");
  printf("meeting: ok\n");
  return 0;
}

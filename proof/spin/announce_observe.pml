/* Announce and observe: src/sync/doorbell.cpp (Doorbell::ring, Doorbell::read, Doorbell::wait) with
 * data that its users publish before the ring and observe after it.
 *
 * The ringer publishes two lines of data and rings; LISTENERS listeners wait, check the data and ring
 * back on bells of their own; the ringer waits for all of them before it writes the data again.
 * Proved: each listener finds the data of its round; no process waits for ever.
 * Bounds: 1 or 2 listeners, ROUNDS rounds, two data lines of a word. */
/* run one_listener: -DLISTENERS=1 -DROUNDS=3 */
/* also two_listeners: -DLISTENERS=2 -DROUNDS=2 */
#if LISTENERS == 2
#define NODES 3
#define LINES 5
#else
#define NODES 2
#define LINES 4
#endif
#define WORDS 1
#define BUF 4
#define DATA 0
#define BELL 2
#define BACK 3
#define READS(n, l) ((n) == 0 && (l) >= BACK || (n) > 0 && (l) < BACK)

#define PUBLISH_DATA 1         /* site publish: the user's data */
#define STORE_FENCE_BEFORE_RING 2    /* site store_fence: Doorbell::ring, first */
#define PUBLISH_BELL 3         /* site publish: Doorbell::ring */
#define STORE_FENCE_AFTER_RING 4     /* site store_fence: Doorbell::ring, second */
#define INVALIDATE_BELL 5      /* site invalidate: Doorbell::read */
#define LOAD_FENCE_BELL 6          /* site load_fence: Doorbell::read */
#define INVALIDATE_DATA 7      /* site invalidate: the user's observe */
#define LOAD_FENCE_DATA 8          /* site load_fence: the user's observe */

#include "memory.pml"

inline ring(n, bell, number) {
  store_fence(STORE_FENCE_BEFORE_RING, n);
  publish(PUBLISH_BELL, n, bell, number);
  store_fence(STORE_FENCE_AFTER_RING, n)
}

inline wait(n, bell, number, seen) {
  do
  :: observe(INVALIDATE_BELL, LOAD_FENCE_BELL, n, bell, seen);
     if
     :: seen >= number -> break
     :: else -> ANOTHER(INVALIDATE_BELL, LOAD_FENCE_BELL, n, bell, seen)
     fi
  od;
  seen = 0
}

proctype ringer() {
  byte round = 1, seen;
  do
  :: round <= ROUNDS ->
     publish(PUBLISH_DATA, 0, DATA, round);
     publish(PUBLISH_DATA, 0, DATA + 1, round);
     ring(0, BELL, round);
     wait(0, BACK, round, seen);
#if LISTENERS == 2
     wait(0, BACK + 1, round, seen);
#endif
     round++
  :: else -> break
  od
}

proctype listener(byte self) {
  byte round = 1, seen, other;
  do
  :: round <= ROUNDS ->
     wait(self, BELL, round, seen);
     atomic {
       invalidate(INVALIDATE_DATA, self, DATA);
       invalidate(INVALIDATE_DATA, self, DATA + 1);
       load_fence(LOAD_FENCE_DATA, self)
     };
     load(self, DATA, seen);
     load(self, DATA + 1, other);
     d_step {
       assert(seen == round && other == round);
       seen = 0; other = 0
     };
     ring(self, BACK + self - 1, round);
     round++
  :: else -> break
  od
}

init {
  atomic {
    choose_quiet();
    run ringer();
    run listener(1);
#if LISTENERS == 2
    run listener(2)
#endif
  }
}

/* Barrier: src/sync/barrier.cpp (Barrier::wait, drop_arrived).
 *
 * Each participant publishes its data, waits, and observes the data of the others, ROUNDS times.
 * Proved: it finds the data of this round, or of the next for a participant that ran ahead; no process waits for ever.
 * Bounds: 2 participants with 3 rounds, 3 with 1 (and 1 stale copy a node); one line of data each. Left out: deadlines, deaths. */
/* run two: -DPARTICIPANTS=2 -DROUNDS=3 */
/* also three: -DPARTICIPANTS=3 -DROUNDS=1 -DCOPIES=1 */
/* large three: 3.8 million states, searched in half of the time */
#if PARTICIPANTS == 3
#define NODES 3
#define LINES 6
#else
#define NODES 2
#define LINES 4
#endif
#define WORDS 1
#define BUF 3
#define ARRIVED(i) (i)
#define DATA(i) (PARTICIPANTS + (i))
#define READS(n, l) ((l) != ARRIVED(n) && (l) != DATA(n))

#define PUBLISH_DATA 1        /* site publish: the user's data */
#define STORE_FENCE_BEFORE 2        /* site store_fence: Barrier::wait, before the arrival */
#define PUBLISH_ARRIVAL 3     /* site publish: Barrier::wait, publish_line */
#define STORE_FENCE_AFTER 4         /* site store_fence: Barrier::wait, after the arrival */
#define INVALIDATE_ARRIVAL 5  /* site invalidate: drop_arrived */
#define LOAD_FENCE_ARRIVAL 6      /* site load_fence: drop_arrived */
#define INVALIDATE_DATA 7     /* site invalidate: the user's observe */
#define LOAD_FENCE_DATA 8         /* site load_fence: the user's observe */

#include "memory.pml"

#define IS_MISSING(i) (missing >> (i) & 1)
#define NEWS(i) \
  (IS_MISSING(i) && ANOTHER(INVALIDATE_ARRIVAL, LOAD_FENCE_ARRIVAL, self, ARRIVED(i), last[i]))

inline look_at(i) {
  if
  :: IS_MISSING(i) ->
     load(self, ARRIVED(i), seen);
     d_step {
       last[i] = seen;
       if
       :: seen >= round -> missing = missing & ~(1 << (i)); last[i] = 0
       :: else
       fi;
       seen = 0
     }
  :: else
  fi
}

inline invalidate_missing(i) {
  if
  :: IS_MISSING(i) -> invalidate(INVALIDATE_ARRIVAL, self, ARRIVED(i))
  :: else
  fi
}

inline drop_arrived() {
  atomic {
    invalidate_missing(0);
    invalidate_missing(1);
#if PARTICIPANTS == 3
    invalidate_missing(2);
#endif
    load_fence(LOAD_FENCE_ARRIVAL, self)
  };
  look_at(0);
  look_at(1)
#if PARTICIPANTS == 3
  ;
  look_at(2)
#endif
}

inline check_data(i) {
  if
  :: i != self ->
     observe(INVALIDATE_DATA, LOAD_FENCE_DATA, self, DATA(i), seen);
     d_step { assert(seen == round || seen == round + 1); seen = 0 }
  :: else
  fi
}

byte started; /* participants that have begun */

proctype participant(byte self) {
  byte round = 1, missing, seen;
  byte last[PARTICIPANTS];
  do
  :: round <= ROUNDS ->
     started >= self; /* all are equal: they begin in the order of their numbers */
     publish(PUBLISH_DATA, self, DATA(self), round);
     if
     :: started == self -> started++
     :: else
     fi;
     store_fence(STORE_FENCE_BEFORE, self);
     publish(PUBLISH_ARRIVAL, self, ARRIVED(self), round);
     store_fence(STORE_FENCE_AFTER, self);
     missing = ((1 << PARTICIPANTS) - 1) & ~(1 << self);
     do
     :: drop_arrived();
        if
        :: missing == 0 -> break
#if PARTICIPANTS == 3
        :: NEWS(0) || NEWS(1) || NEWS(2)
#else
        :: NEWS(0) || NEWS(1)
#endif
        fi
     od;
     check_data(0);
     check_data(1);
#if PARTICIPANTS == 3
     check_data(2);
#endif
     round++
  :: else -> break
  od
}

init {
  atomic {
    choose_quiet();
    run participant(0);
    run participant(1);
#if PARTICIPANTS == 3
    run participant(2)
#endif
  }
}

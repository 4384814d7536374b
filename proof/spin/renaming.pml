/* Renaming: src/sync/renaming.cpp (Renaming::claim), the grid of splitters.
 *
 * Each contender walks through the grid once. Proved: each stops, on a number of its own; the grid of
 * `contenders` rows is large enough.
 * Bounds: 2 contenders in 2 rows, 3 in 3 (without stale copies); one claim each. Left out: a contender that dies on the way is
 * one that stops for ever where it is; the other contenders cannot tell, and no wait depends on it. */
/* run two: -DCONTENDERS=2 */
/* also three: -DCONTENDERS=3 -DCOPIES=0 */
#define ROWS CONTENDERS
#if CONTENDERS == 3
#define NODES 3
#define LINES 12
#else
#define NODES 2
#define LINES 6
#endif
#define WORDS 1
#define BUF 2
/* Row and column of splitter k; a contender at (row[n], column[n]) still reads those below and right
 * of it, and none once it has stopped. */
#define ROW_OF(k) ((k) == 2 || (k) == 4 -> 1 : ((k) == 5 -> 2 : 0))
#define COLUMN_OF(k) ((k) == 1 || (k) == 4 -> 1 : ((k) == 3 -> 2 : 0))
#define READS(n, l) (ROW_OF((l) / 2) >= row[n] && COLUMN_OF((l) / 2) >= column[n])
byte row[CONTENDERS], column[CONTENDERS];

#define PUBLISH_X 1      /* site publish: Renaming::claim, X */
#define FULL_FENCE_X 2   /* site full_fence: Renaming::claim, after X */
#define INVALIDATE_Y 3   /* site invalidate: Renaming::claim, observe_word of Y */
#define LOAD_FENCE_Y 4       /* site load_fence: Renaming::claim, observe_word of Y */
#define PUBLISH_Y 5      /* site publish: Renaming::claim, Y */
#define FULL_FENCE_Y 6   /* site full_fence: Renaming::claim, after Y */
#define INVALIDATE_X 7   /* site invalidate: Renaming::claim, observe_word of X */
#define LOAD_FENCE_X 8       /* site load_fence: Renaming::claim, observe_word of X */

#include "memory.pml"

byte started; /* contenders that have begun */
bit given[ROWS * (ROWS + 1) / 2];

#define X (2 * number)
#define Y (2 * number + 1)

/* Copies of lines that are not read any more make no difference. */
#define FORGET_PASSED(n, l) \
  if \
  :: !READS(n, l) && state_of[COPY(n, l)] == CLEAN -> forget(n, l) \
  :: else \
  fi;

inline pass() {
  seen = 0;
  UP_TO_THEN(LINES, FORGET_PASSED, self)
}

proctype contender(byte self) {
  byte number, seen;
  do
  :: row[self] + column[self] < ROWS ->
     number = (row[self] + column[self]) * (row[self] + column[self] + 1) / 2 + row[self];
     started >= self; /* all are alike: let them begin in the order of their numbers */
     publish(PUBLISH_X, self, X, self + 1);
     if
     :: started == self -> started++
     :: else
     fi;
     full_fence(FULL_FENCE_X, self);
     observe(INVALIDATE_Y, LOAD_FENCE_Y, self, Y, seen);
     if
     :: d_step { seen != 0 -> column[self]++; pass() }
     :: else ->
        publish(PUBLISH_Y, self, Y, self + 1);
        full_fence(FULL_FENCE_Y, self);
        observe(INVALIDATE_X, LOAD_FENCE_X, self, X, seen);
        if
        :: d_step {
             seen == self + 1 -> assert(!given[number]);
             given[number] = 1;
             row[self] = ROWS;
             pass();
             number = 0
           };
           break
        :: d_step { else -> row[self]++; pass() }
        fi
     fi
  :: else -> assert(false) /* no_slots */
  od
}

init {
  atomic {
    choose_quiet();
    run contender(0);
    run contender(1);
#if CONTENDERS == 3
    run contender(2)
#endif
  }
}

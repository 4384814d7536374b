/* Renaming: src/sync/renaming.cpp (a door and its number), src/pool/registration.cpp (the opening).
 *
 * Each contender comes VISITS times to one door: before that it opens the door if its last holder has left,
 * under the registration lock, which is assumed to work. Proved: no contender gets through a door while
 * another holds it, however old the ids are that late contenders write there.
 * Bounds: 2 contenders that come twice, 3 that come once and 3 of which one comes twice (these without
 * stale copies). Left out: several doors, which are independent of each other; doors that are opened
 * because nothing happened there for a lease, which relies on time. A contender that dies is modelled as one
 * that stops for ever: the door stays shut, and no wait depends on it. */
/* run two: -DCONTENDERS=2 -DVISITS=2 */
/* also three: -DCONTENDERS=3 -DVISITS=1 -DCOPIES=0 */
/* long three_times: -DCONTENDERS=3 -DVISITS=2 -DCOPIES=0 */
#define NODES CONTENDERS
#define LINES 3
#define WORDS 1
#define BUF 2
#define X 0
#define Y 1
#define L 2 /* the line of the name: its holder is there, or has left */

#define PUBLISH_X 1      /* site publish: Renaming::enter, X */
#define FULL_FENCE_X 2   /* site full_fence: Renaming::enter, after X */
#define INVALIDATE_Y 3   /* site invalidate: Renaming::enter, observe_word of Y */
#define LOAD_FENCE_Y 4       /* site load_fence: Renaming::enter, observe_word of Y */
#define PUBLISH_Y 5      /* site publish: Renaming::enter, Y */
#define FULL_FENCE_Y 6   /* site full_fence: Renaming::enter, after Y */
#define INVALIDATE_X 7   /* site invalidate: Renaming::enter, observe_word of X */
#define LOAD_FENCE_X 8       /* site load_fence: Renaming::enter, observe_word of X */
#define PUBLISH_LEAVE 9  /* site publish: Renaming::leave */
#define FENCE_LEAVE 10   /* site store_fence: Renaming::leave */
#define PUBLISH_OPEN 11  /* site publish: Renaming::open */
#define INVALIDATE_BY 12 /* site invalidate: Renaming::shut_by */
#define LOAD_FENCE_BY 13 /* site load_fence: Renaming::shut_by */
#define NONE 99 /* sites of other models */


#include "memory.pml"

#define ID(self, visit) ((self) + 1 + CONTENDERS * (visit))
#define LEFT 32 /* in the line of a name: its holder has left */

bit held, opening;

inline open_if_left(self, there, by) {
  atomic { !opening -> opening = 1 };
  observe(INVALIDATE_BY, LOAD_FENCE_BY, self, Y, by);
  observe(NONE, NONE, self, L, there);
  if
  :: by != 0 && there == by + LEFT -> publish(PUBLISH_OPEN, self, Y, 0)
  :: else
  fi;
  full_fence(NONE, self); /* the release of the lock */
  there = 0; by = 0;
  opening = 0
}

proctype contender(byte self) {
  byte visit, there, seen;
  do
  :: visit < VISITS ->
     open_if_left(self, there, seen);
     publish(PUBLISH_X, self, X, ID(self, visit));
     full_fence(FULL_FENCE_X, self);
     observe(INVALIDATE_Y, LOAD_FENCE_Y, self, Y, seen);
     if
     :: d_step { seen != 0 -> seen = 0 }
     :: else ->
        publish(PUBLISH_Y, self, Y, ID(self, visit));
        full_fence(FULL_FENCE_Y, self);
        observe(INVALIDATE_X, LOAD_FENCE_X, self, X, seen);
        if
        :: d_step { seen == ID(self, visit) -> assert(!held); held = 1; seen = 0 };
           publish(NONE, self, L, ID(self, visit));
           full_fence(NONE, self);
           held = 0;
           publish(PUBLISH_LEAVE, self, Y, ID(self, visit));
           store_fence(FENCE_LEAVE, self);
           publish(NONE, self, L, ID(self, visit) + LEFT);
           full_fence(NONE, self)
        :: d_step { else -> seen = 0 }
        fi
     fi;
     visit++
  :: else -> break
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

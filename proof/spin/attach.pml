/* Attach, detach, reap: src/pool/pool.cpp (join), slot_search.cpp (take), own_slot.cpp (owns, leave), reclaim.cpp (reap),
 * process_table.cpp (used, state, take, set_state), liveness.cpp (alive).
 *
 * SLOTS process slots, each a state line (generation; state and process; checksum) and a line of details.
 *   process 1 (node 0) attaches and detaches, and may be killed between any two steps
 *   process 2 (node 1) attaches, reaps, detaches
 *   process 3 (node 2) attaches, detaches
 * Proved: a slot never has two living owners; a process that takes a slot draws a generation greater than
 * that of every owner before; the owner of a dead process's objects is reported once; the details of an attached
 * process are its own; in the end only dead processes' slots are left attached. No process waits for ever.
 * The lock is that of lock.pml, as one step (see object.pml). A process that is found dead is dead.
 * Bounds: 1 slot (with a crash and no stale copies, or with 1 stale copy a node and no crash); 2 slots
 * with neither; in the world `pair` processes 2 and 3 only. Left out: leases, attaching processes, the node table (names:
 * renaming.pml), a living process that others declare dead. */
/* run crash: -DSLOTS=1 -DCOPIES=0 -DMORTAL=1 */
/* run pair: -DSLOTS=1 -DCOPIES=1 -DMORTAL=0 -DPAIR */
/* also race: -DSLOTS=1 -DCOPIES=1 -DMORTAL=0 */
/* also two_slots: -DSLOTS=2 -DCOPIES=0 -DMORTAL=0 */
/* compile -O1: the verifier is large, its search short */
/* large race: 3.3 million states, searched in half of the time */
#define NODES 3
#if SLOTS == 2
#define LINES 4
#else
#define LINES 2
#endif
#define WORDS 3
#define BUF 4
#define ROOM 3
#define STATE(slot) (slot)
#define DETAILS(slot) (SLOTS + (slot))

#define INVALIDATE_ALL 1      /* site invalidate: ProcessTable::used */
#define LOAD_FENCE_ALL 2          /* site load_fence: ProcessTable::used */
#define INVALIDATE_STATE 3    /* site invalidate: ProcessTable::state */
#define LOAD_FENCE_STATE 4        /* site load_fence: ProcessTable::state */
#define PUBLISH_DETAILS 5     /* site publish: ProcessTable::take, details, lease, stats, activity */
#define STORE_FENCE_DETAILS 6       /* site store_fence: ProcessTable::take, before the state */
#define PUBLISH_TAKEN 7       /* site publish: ProcessTable::take, the state */
#define STORE_FENCE_TAKEN 8         /* site store_fence: ProcessTable::take, after the state */
#define STORE_FENCE_CHANGE 9        /* site store_fence: ProcessTable::set_state, first */
#define PUBLISH_CHANGE 10     /* site publish: ProcessTable::set_state */
#define STORE_FENCE_CHANGED 11      /* site store_fence: ProcessTable::set_state, second */
#define INVALIDATE_DETAILS 12 /* site invalidate: ProcessTable::origin */
#define LOAD_FENCE_DETAILS 13     /* site load_fence: ProcessTable::origin */
#define RELEASE 200           /* weakened in lock.pml, not here */

/* beyond INVALIDATE_STATE: under the lock `used` has just dropped the copies of all states. Without it a
 * process reads its own state, which others change only if they take a living process for dead. */
/* beyond LOAD_FENCE_STATE: as INVALIDATE_STATE. */
/* equivalent STORE_FENCE_TAKEN: the lock's release orders the state before the lock is seen free. */
/* beyond STORE_FENCE_CHANGE: a process's actions in the pool before it leaves are not modelled. */

#include "memory.pml"

#define ATTACHED 1
#define DETACHED 2
#define REAPED 3
#define REST_OF(state, process) ((process) + 4 * (state))
#define PROCESS(rest) ((rest) & 3)
#define STATE_IN(rest) ((rest) >> 2)
#define CHECKSUM_OF(generation, rest) (16 * (generation) + (rest))

byte lock_holder;          /* process */
bool dead, done[4];        /* process 1 was killed; the process is done */
byte owner[SLOTS];         /* the process whose attachment is under way or complete */
byte greatest[SLOTS];      /* greatest generation taken by a process that then released the lock */
byte told[SLOTS];          /* bit g: the owner of generation g was reported dead */

#define IS_DEAD(process) ((process) == 0 || ((process) == 1 && dead && buffered[0] == 0))

inline lock() {
  if
  :: atomic { lock_holder == 0 -> lock_holder = me }
  :: atomic { lock_holder == 1 && IS_DEAD(1) -> lock_holder = me }
  fi
}

inline unlock() {
  full_fence(RELEASE, self);
  lock_holder = 0
}

inline publish_words(site) {
  publish(site, self, STATE(slot) * WORDS, generation);
  publish(site, self, STATE(slot) * WORDS + 1, rest);
  publish(site, self, STATE(slot) * WORDS + 2, CHECKSUM_OF(generation, rest))
}

/* One step, except for a process that may be killed within it. */
inline publish_state(site) {
  if
  :: me == 1 && MORTAL -> publish_words(site)
  :: else -> atomic { buffered[self] + 2 < BUF; publish_words(site) }
  fi
}

inline load_state() {
  load(self, STATE(slot) * WORDS + 2, checksum);
  load(self, STATE(slot) * WORDS, generation);
  load(self, STATE(slot) * WORDS + 1, rest);
  atomic { whole = checksum == CHECKSUM_OF(generation, rest); checksum = 0 }
}

inline state() {
  atomic {
    invalidate(INVALIDATE_STATE, self, STATE(slot));
    load_fence(LOAD_FENCE_STATE, self)
  };
  load_state()
}

inline used() {
  atomic {
    invalidate(INVALIDATE_ALL, self, STATE(0));
#if SLOTS == 2
    invalidate(INVALIDATE_ALL, self, STATE(1));
#endif
    load_fence(LOAD_FENCE_ALL, self)
  }
}

/* Stores into `chosen` a slot that was never used, else one that was left, else a dead process's; SLOTS
 * if living processes hold all. */
inline choose_slot() {
  used();
  chosen = SLOTS; class = 0; slot = 0;
  do
  :: slot < SLOTS ->
     load_state();
     atomic {
       if
       :: whole && generation == 0 && class < 3 -> chosen = slot; class = 3
       :: whole && generation != 0 && STATE_IN(rest) != ATTACHED && class < 2 ->
          chosen = slot; class = 2
       :: (!whole || STATE_IN(rest) == ATTACHED) && IS_DEAD(PROCESS(rest)) && class < 1 ->
          chosen = slot; class = 1
       :: else
       fi;
       slot++; generation = 0; rest = 0; whole = false
     }
  :: else -> break
  od;
  atomic { class = 0; slot = chosen; chosen = 0 }
}

inline take() {
  state();
  generation++;
  d_step {
    assert(owner[slot] == 0 || (owner[slot] == 1 && dead));
    assert(generation > greatest[slot]);
    owner[slot] = me
  };
  publish(PUBLISH_DETAILS, self, DETAILS(slot) * WORDS, me);
  rest = REST_OF(ATTACHED, me);
  store_fence(STORE_FENCE_DETAILS, self);
  publish_state(PUBLISH_TAKEN);
  store_fence(STORE_FENCE_TAKEN, self)
}

inline attach() {
  lock();
  choose_slot();
  if
  :: slot < SLOTS ->
     take();
     atomic { mine = slot; mine_generation = generation }
  :: else
  fi;
  atomic { slot = 0; generation = 0; rest = 0; whole = false };
  full_fence(RELEASE, self);
  d_step {
    if
    :: mine < SLOTS -> greatest[mine] = mine_generation
    :: else
    fi;
    lock_holder = 0
  }
}

/* ~Pool: without the lock. */
inline detach() {
  slot = mine;
  state(); /* owns_slot */
  assert(whole && generation == mine_generation && STATE_IN(rest) == ATTACHED);
  state(); /* set_state */
  rest = REST_OF(DETACHED, PROCESS(rest));
  store_fence(STORE_FENCE_CHANGE, self);
  owner[slot] = 0;
  publish_state(PUBLISH_CHANGE);
  store_fence(STORE_FENCE_CHANGED, self);
  atomic { slot = 0; generation = 0; rest = 0; whole = false; mine = SLOTS; mine_generation = 0 }
}

inline reap() {
  lock();
  used();
  slot = 0;
  do
  :: slot < SLOTS ->
     load_state();
     if
     :: whole && generation != 0 && STATE_IN(rest) == ATTACHED ->
        observe(INVALIDATE_DETAILS, LOAD_FENCE_DETAILS, self, DETAILS(slot) * WORDS, checksum);
        assert(checksum == PROCESS(rest) || owner[slot] != PROCESS(rest));
        checksum = 0
     :: else
     fi;
     if
     :: (!whole || (generation != 0 && STATE_IN(rest) == ATTACHED)) && IS_DEAD(PROCESS(rest)) ->
        d_step {
          if
          :: whole ->
             assert(!(told[slot] >> generation & 1));
             told[slot] = told[slot] | 1 << generation
          :: else
          fi
        };
        chosen = generation;
        state();
        generation = chosen;
        chosen = 0;
        rest = REST_OF(REAPED, PROCESS(rest));
        store_fence(STORE_FENCE_CHANGE, self);
        publish_state(PUBLISH_CHANGE);
        store_fence(STORE_FENCE_CHANGED, self)
     :: else
     fi;
     atomic { slot++; generation = 0; rest = 0; whole = false }
  :: else -> slot = 0; break
  od;
  unlock()
}

#define LOCALS \
  byte self = me - 1, slot, generation, rest, checksum, chosen, class, mine = SLOTS, mine_generation; \
  bool whole

/* Inside d_step: loses the youngest word in the dead process's store buffer. */
inline lose_last() {
  buffered[0]--;
  address_of[ENTRY(0, buffered[0])] = 0;
  value_of[ENTRY(0, buffered[0])] = 0;
  orders_before[ENTRY(0, buffered[0])] = 0;
  if
  :: buffered[0] == 0 -> orders[0] = 0
  :: else
  fi
}

proctype process(byte me) {
  LOCALS;
  attach();
  if
  :: me == 2 -> reap()
  :: else
  fi;
  if
  :: mine < SLOTS -> detach()
  :: else
  fi;
  done[me] = true
}

proctype mortal(byte me) {
  LOCALS;
  {
    attach();
    if
    :: mine < SLOTS -> detach()
    :: else
    fi;
    done[me] = true
  } unless {
    dead
  };
  atomic {
    slot = 0; generation = 0; rest = 0; checksum = 0; chosen = 0; class = 0;
    mine = SLOTS; mine_generation = 0; whole = false
  };
  do
  :: !dead || buffered[0] == 0 -> break
  :: d_step { dead && buffered[0] > 0 -> lose_last() }
  od
}

proctype killer() {
  if
  :: atomic { !done[1] -> dead = true }
  :: true
  fi
}

#define LEFT_IN_ORDER(slot) \
  (STATE_IN(dev[STATE(slot) * WORDS + 1]) != ATTACHED || \
   (dead && PROCESS(dev[STATE(slot) * WORDS + 1]) == 1))

proctype witness() {
  atomic {
    done[2] && done[3] && (done[1] || dead) && buffered[0] == 0 && buffered[1] == 0 &&
      buffered[2] == 0 ->
    assert(LEFT_IN_ORDER(0));
#if SLOTS == 2
    assert(LEFT_IN_ORDER(1))
#endif
  }
}

init {
  atomic {
    choose_quiet();
#if MORTAL
    run killer();
#endif
    run witness();
#ifdef PAIR
    done[1] = true;
#else
    run mortal(1);
#endif
    run process(2);
    run process(3)
  }
}

/* Objects: src/arena/creation.cpp (create, claim_name, publish_zeros, publish_name), name_table.cpp
 * (load, find, put, remove), space.cpp (begin, finish_journal, load_moving, rewrite, allocate, place,
 * free, join_following), reclaim.cpp (reclaim, is_reachable), arena.cpp (open, destroy).
 *
 * A table of one slot (an entry and a name line), a space of two units, each with a header line in
 * front and a line of bytes, the journal's two lines and the line with the next generation. Lines have
 * two words, contents and checksum; the second arrives last, and a killed process may have sent only
 * the first.
 *   worker 0 creates "a", destroys it, and may be killed between any two steps
 *   worker 1 creates "a" (or opens it), destroys it, creates "b"; then, when worker 0 is done or
 *            dead, takes the lock once more and reclaims
 *   the reader (a node of its own) looks "a" up twice without the lock and observes its bytes
 * Proved for the device at any moment: a slot that counts refers to a used extent of its own generation
 * whose bytes were zeroed. For the reader: an object that it finds was not destroyed before it began
 * to look, and its bytes are zeroed. In the end: the chain of extents is whole, and every used one has its name. No
 * generation is given twice. No process waits for ever.
 * The lock is that of lock.pml, as one step: its release waits until the store buffer is empty; a dead
 * holder is passed over once its store buffer is empty (or lost).
 * Bounds: one slot, two units; 1 stale copy a node without the reader and without a crash, else none.
 * Left out: levels of the table, the cursor,
 * large objects, lifetimes, formatting. */
/* run race: -DCOPIES=1 -DREADER=0 -DMORTAL=0 */
/* run reader: -DCOPIES=0 -DREADER=1 -DMORTAL=0 */
/* run crash: -DCOPIES=0 -DREADER=0 -DMORTAL=1 */
/* compile -O0: the verifier is large, its search short */
#if READER
#define NODES 3
#else
#define NODES 2
#endif
#define LINES 9
#define WORDS 2
#define BUF 4
#define SLOT 0
#define NAME 1
#define HEADER(unit) (2 + (unit))
#define IMAGE 4
#define TARGET 5
#define MOVING 6
#define BYTES(unit) (7 + (unit))
#define READS(n, l) ((n) == 2 -> (l) == SLOT || (l) == NAME || (l) >= BYTES(0) : (l) < BYTES(0))

#define INVALIDATE_CONTROL 1      /* site invalidate: Space::begin */
#define LOAD_FENCE_CONTROL 2          /* site load_fence: Space::begin */
#define PUBLISH_REDONE 3          /* site publish: Space::finish_journal, the header */
#define STORE_FENCE_REDONE 4            /* site store_fence: Space::finish_journal */
#define PUBLISH_REDO_DONE 5       /* site publish: Space::finish_journal, checksum */
#define PUBLISH_MOVING 6          /* site publish: Space::publish_moving */
#define PUBLISH_NEW 7             /* site publish: Space::publish_new */
#define STORE_FENCE_BEFORE 8            /* site store_fence: Space::rewrite, first */
#define PUBLISH_IMAGE 9           /* site publish: Space::rewrite, image */
#define PUBLISH_TARGET 10         /* site publish: Space::rewrite, journal */
#define STORE_FENCE_JOURNAL 11          /* site store_fence: Space::rewrite, second */
#define PUBLISH_HEADER 12         /* site publish: Space::rewrite, the header */
#define STORE_FENCE_HEADER 13           /* site store_fence: Space::rewrite, third */
#define PUBLISH_JOURNAL_DONE 14   /* site publish: Space::rewrite, checksum */
#define INVALIDATE_EXTENT 15      /* site invalidate: ExtentReader::peek */
#define LOAD_FENCE_EXTENT 16          /* site load_fence: ExtentReader::peek */
#define PUBLISH_ZEROS 17          /* site publish: publish_zeros */
#define PUBLISH_NAME 18           /* site publish: NameTable::put, name */
#define STORE_FENCE_NAME 19             /* site store_fence: NameTable::put */
#define PUBLISH_SLOT 20           /* site publish: NameTable::put, entry */
#define PUBLISH_REMOVED 21        /* site publish: NameTable::remove */
#define INVALIDATE_SLOT 22        /* site invalidate: NameTable::find_once, read */
#define LOAD_FENCE_SLOT 23            /* site load_fence: NameTable::find_once, read */
#define RELEASE 200            /* weakened in lock.pml, not here */
#define USERS_OBSERVE 201      /* never weakened: it belongs to the user */

/* beyond PUBLISH_REDONE: a process that redoes a rewrite finds its own dirty line again; only a third node,
 * or its death together with its host, could show the difference. */
/* beyond STORE_FENCE_REDONE: as PUBLISH_REDONE, with a second death during the redoing. */
/* beyond PUBLISH_REDO_DONE: as PUBLISH_REDONE. */

/* Contents of a slot: generation 1..7, unit, name 0 or 1; its checksum covers the name line. */
#define SLOT_OF(generation, unit, name) (64 + (generation) + 8 * (unit) + 16 * (name))
#define GENERATION_OF_SLOT(slot) ((slot) & 7)
#define UNIT_OF_SLOT(slot) ((slot) >> 3 & 1)
#define NAME_OF_SLOT(slot) ((slot) >> 4 & 1)
#define IS_SLOT(slot, check, name) ((check) == (slot) + 64 && (name) == 1 + NAME_OF_SLOT(slot))

/* Contents of a header: used, units 1 or 2, generation. */
#define HEADER_OF(used, units, generation) (32 + (used) + 2 * ((units) - 1) + 4 * (generation))
#define USED(header) ((header) & 1)
#define UNITS(header) (((header) >> 1 & 1) + 1)
#define GENERATION(header) ((header) >> 2 & 7)
#define IS_HEADER(header, check) ((header) >= 32 && (check) == (header) + 64)
#define JOURNAL_CHECK(target, image) (128 + 64 * ((target) - 1) + ((image) & 31))

#define DEV(line, word) dev[(line) * WORDS + (word)]
#define DEV_NAMED IS_SLOT(DEV(SLOT, 0), DEV(SLOT, 1), DEV(NAME, 0))
#define DEV_UNIT UNIT_OF_SLOT(DEV(SLOT, 0))
#define DEVICE_CHECK \
  assert(!DEV_NAMED || \
         (IS_HEADER(DEV(HEADER(DEV_UNIT), 0), DEV(HEADER(DEV_UNIT), 1)) && \
          USED(DEV(HEADER(DEV_UNIT), 0)) && \
          GENERATION(DEV(HEADER(DEV_UNIT), 0)) == GENERATION_OF_SLOT(DEV(SLOT, 0)) && \
          DEV(BYTES(DEV_UNIT), 0) == GENERATION_OF_SLOT(DEV(SLOT, 0))))

#include "memory.pml"

byte lock_holder;      /* worker + 1 */
bool dead, done[2];    /* worker 0 was killed; the worker is done */
byte given;            /* bit g: generation g has had a name */
byte destroying, gone; /* bit g: it is being destroyed; its destroyer has released the lock */

inline lock() {
  if
  :: atomic { lock_holder == 0 -> lock_holder = self + 1 }
  :: atomic { lock_holder == 1 && dead && buffered[0] == 0 -> lock_holder = self + 1 }
  fi
}

inline unlock() {
  full_fence(RELEASE, self);
  d_step { gone = gone | destroying; lock_holder = 0 }
}

inline publish_line(site, line, contents, check) {
  publish(site, self, (line) * WORDS, contents);
  publish(site, self, (line) * WORDS + 1, check)
}

inline load_line(line, contents, check) {
  load(self, (line) * WORDS + 1, check);
  load(self, (line) * WORDS, contents)
}

/* ---- space --------------------------------------------------------------------------------------- */

inline read_header(unit, into) {
  observe(INVALIDATE_EXTENT, LOAD_FENCE_EXTENT, self, HEADER(unit) * WORDS + 1, check);
  load(self, HEADER(unit) * WORDS, into);
  d_step { assert(IS_HEADER(into, check)); check = 0 }
}

/* Rewrites the header at `unit` to `header`. */
inline rewrite() {
  store_fence(STORE_FENCE_BEFORE, self);
  publish_line(PUBLISH_IMAGE, IMAGE, header, header + 64);
  publish_line(PUBLISH_TARGET, TARGET, unit + 1, JOURNAL_CHECK(unit + 1, header));
  store_fence(STORE_FENCE_JOURNAL, self);
  publish_line(PUBLISH_HEADER, HEADER(unit), header, header + 64);
  store_fence(STORE_FENCE_HEADER, self);
  publish(PUBLISH_JOURNAL_DONE, self, TARGET * WORDS + 1, 0)
}

inline publish_moving() {
  publish_line(PUBLISH_MOVING, MOVING, next, next + 64)
}

inline finish_journal() {
  load_line(TARGET, seen, check);
  if
  :: check != 0 && seen != 0 ->
     load(self, IMAGE * WORDS + 1, other);
     load(self, IMAGE * WORDS, header);
     if
     :: check == JOURNAL_CHECK(seen, header) && IS_HEADER(header, other) ->
        publish_line(PUBLISH_REDONE, HEADER(seen - 1), header, header + 64);
        store_fence(STORE_FENCE_REDONE, self);
        publish(PUBLISH_REDO_DONE, self, TARGET * WORDS + 1, 0)
     :: else
     fi
  :: else
  fi;
  atomic { seen = 0; check = 0; other = 0; header = 0 }
}

inline load_moving() {
  load_line(MOVING, next, check);
  if
  :: check == next + 64 && next != 0 -> check = 0
  :: else ->
     atomic { check = 0; next = 0; unit = 0 };
     do
     :: unit < 2 ->
        read_header(unit, header);
        d_step {
          if
          :: GENERATION(header) > next -> next = GENERATION(header)
          :: else
          fi;
          unit = unit + UNITS(header);
          header = 0
        }
     :: else -> unit = 0; break
     od;
     next++;
     publish_moving()
  fi
}

inline begin() {
  atomic {
    invalidate(INVALIDATE_CONTROL, self, MOVING);
    invalidate(INVALIDATE_CONTROL, self, TARGET);
    invalidate(INVALIDATE_CONTROL, self, IMAGE);
    load_fence(LOAD_FENCE_CONTROL, self)
  };
  finish_journal();
  load_moving()
}

/* Joins `header`, at `unit`, with a free extent behind it. */
inline join_following() {
  if
  :: unit == 0 && UNITS(header) == 1 ->
     read_header(1, other);
     d_step {
       if
       :: !USED(other) && GENERATION(other) > GENERATION(header) ->
          header = HEADER_OF(USED(header), 2, GENERATION(other))
       :: !USED(other) && GENERATION(other) <= GENERATION(header) ->
          header = HEADER_OF(USED(header), 2, GENERATION(header))
       :: else
       fi;
       other = 0
     }
  :: else
  fi
}

/* First fit; `unit` is 2 if there is no space. Otherwise `header` becomes the used one. */
inline allocate() {
  unit = 0;
  do
  :: unit < 2 ->
     read_header(unit, header);
     if
     :: !USED(header) ->
        if
        :: UNITS(header) == 1 && unit == 0 ->
           join_following();
           if
           :: UNITS(header) == 2 -> rewrite()
           :: else
           fi
        :: else
        fi;
        break
     :: else -> unit = unit + UNITS(header)
     fi
  :: else -> break
  od;
  if
  :: unit < 2 ->
     next++;
     publish_moving();
     if
     :: UNITS(header) == 2 ->
        other = HEADER_OF(0, 1, GENERATION(header));
        publish_line(PUBLISH_NEW, HEADER(1), other, other + 64);
        other = 0
     :: else
     fi;
     header = HEADER_OF(1, 1, next - 1);
     rewrite()
  :: else
  fi
}

/* Frees the used extent `header` at `unit`. */
inline free() {
  header = HEADER_OF(0, UNITS(header), GENERATION(header));
  join_following();
  rewrite()
}

/* ---- names --------------------------------------------------------------------------------------- */

/* Reads the table's slot into `slot`; 0 if it is free. */
inline read_slot() {
  atomic {
    invalidate(INVALIDATE_SLOT, self, SLOT);
    invalidate(INVALIDATE_SLOT, self, NAME);
    load_fence(LOAD_FENCE_SLOT, self)
  };
  load_line(SLOT, slot, check);
  load(self, NAME * WORDS, seen);
  d_step {
    if
    :: !IS_SLOT(slot, check, seen) -> slot = 0
    :: else
    fi;
    check = 0; seen = 0
  }
}

inline put_name(name) {
  slot = SLOT_OF(GENERATION(header), unit, name);
  d_step {
    assert(!(given >> GENERATION(header) & 1));
    given = given | 1 << GENERATION(header)
  };
  publish(PUBLISH_NAME, self, NAME * WORDS, (name) + 1);
  store_fence(STORE_FENCE_NAME, self);
  publish_line(PUBLISH_SLOT, SLOT, slot, slot + 64)
}

inline remove_name() {
  destroying = destroying | 1 << GENERATION_OF_SLOT(slot);
  publish(PUBLISH_REMOVED, self, SLOT * WORDS + 1, 0)
}

/* Frees used extents to which no name refers, from the last to the first. */
inline reclaim() {
  read_slot();
  read_header(0, header);
  if
  :: UNITS(header) == 1 -> unit = 1
  :: else -> unit = 0
  fi;
  do
  :: read_header(unit, header);
     if
     :: USED(header) && !(slot != 0 && UNIT_OF_SLOT(slot) == unit &&
                          GENERATION_OF_SLOT(slot) == GENERATION(header)) -> free()
     :: else
     fi;
     if
     :: unit == 1 -> unit = 0
     :: else -> break
     fi
  od
}

/* ---- the processes ------------------------------------------------------------------------------- */

#define CREATE_A 1
#define CREATE_B 2
#define DESTROY 3
#define RECLAIM 4

inline create(name) {
  read_slot();
  if
  :: slot == 0 ->
     allocate();
     if
     :: unit == 2 -> reclaim(); allocate()
     :: else
     fi;
     assert(unit < 2);
     publish(PUBLISH_ZEROS, self, BYTES(unit) * WORDS, GENERATION(header));
     put_name(name)
  :: else
  fi
}

inline destroy() {
  read_slot();
  if
  :: slot != 0 ->
     remove_name();
     unit = UNIT_OF_SLOT(slot);
     read_header(unit, header);
     assert(USED(header) && GENERATION(header) == GENERATION_OF_SLOT(slot));
     free()
  :: else
  fi
}

inline forget_all() {
  header = 0; other = 0; unit = 0; next = 0; seen = 0; check = 0; slot = 0
}

inline work() {
  do
  :: at < count ->
     lock();
     begin();
     if
     :: todo[at] == DESTROY -> destroy()
     :: todo[at] == RECLAIM -> reclaim()
     :: else -> create(todo[at] - 1)
     fi;
     atomic { forget_all() };
     unlock();
     at++
  :: else -> break
  od
}

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

proctype first() {
  byte header, other, unit, next, seen, check, slot, at;
  byte self = 0, count = 2;
  byte todo[2];
  todo[0] = CREATE_A; todo[1] = DESTROY;
  {
    work();
    done[0] = true
  } unless {
    dead
  };
  atomic { forget_all(); at = 0; todo[0] = 0; todo[1] = 0 };
  do
  :: !dead || buffered[0] == 0 -> break
  :: d_step { dead && buffered[0] > 0 -> lose_last() }
  od
}

#define DEV_HEADER(unit) DEV(HEADER(unit), 0)
#define DEV_IS_HEADER(unit) IS_HEADER(DEV(HEADER(unit), 0), DEV(HEADER(unit), 1))
#define HAS_NAME(unit) (DEV_NAMED && DEV_UNIT == (unit))

proctype second() {
  byte header, other, unit, next, seen, check, slot, at;
  byte self = 1, count = 3;
  byte todo[4];
  todo[0] = CREATE_A; todo[1] = DESTROY; todo[2] = CREATE_B; todo[3] = RECLAIM;
  work();
  dead || done[0];
  count = 4;
  work();
  atomic {
    assert(DEV_IS_HEADER(0) && USED(DEV_HEADER(0)) == HAS_NAME(0));
    assert(UNITS(DEV_HEADER(0)) == 2 ||
           (DEV_IS_HEADER(1) && USED(DEV_HEADER(1)) == HAS_NAME(1)));
    todo[0] = 0; todo[1] = 0; todo[2] = 0; todo[3] = 0; at = 0; count = 0
  };
  done[1] = true
}

proctype reader() {
  byte slot, seen, check, before, times;
  byte self = 2;
  do
  :: times < 2 ->
     before = gone;
     read_slot();
     if
     :: slot != 0 ->
        observe(USERS_OBSERVE, USERS_OBSERVE, self, BYTES(UNIT_OF_SLOT(slot)) * WORDS, seen);
        d_step {
          assert(!(before >> GENERATION_OF_SLOT(slot) & 1));
          assert(seen == GENERATION_OF_SLOT(slot) ||
                 destroying >> GENERATION_OF_SLOT(slot) & 1)
        }
     :: else
     fi;
     atomic { slot = 0; seen = 0; before = 0; times++ }
  :: else -> times = 0; break
  od
}

proctype killer() {
  if
  :: atomic { !done[0] -> dead = true }
  :: true
  fi
}

init {
  d_step {
    dev[HEADER(0) * WORDS] = HEADER_OF(0, 2, 0);
    dev[HEADER(0) * WORDS + 1] = HEADER_OF(0, 2, 0) + 64;
    dev[MOVING * WORDS] = 1;
    dev[MOVING * WORDS + 1] = 65
  };
  atomic {
    choose_quiet();
    run first();
    run second();
#if MORTAL
    run killer();
#endif
#if READER
    run reader()
#endif
  }
}

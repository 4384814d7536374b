/* The memory of docs/memory-model.md, shared by all models of this folder.
 *
 * A model defines, before it includes this file:
 *   NODES, LINES, WORDS   words of a line that are modelled; word w of line l is number l * WORDS + w
 *   BUF                   words that a node's store buffer holds
 * and may define:
 *   READS(n, l)           node n ever loads line l (else it needs no copies of it); default: yes
 *   TAGGED(l)             line l is written by publish_line, its last word last; default: yes
 *   COPIES                most copies that a node holds at once and that differ from the device
 *   ROOM                  most words that a process waits to put at once; default: 1
 *   DEVICE_CHECK          a statement that runs after each change of the device
 *   MUTANTS               set: the verifier weakens the site whose number the environment's MUTANT is;
 *                         with DIRTY_LINES too if it is a publish, which then becomes a plain store
 *
 * Device: dev[]. Each node has
 *   - a store buffer. `put` (a non-temporal store of one word) appends to it. `world` delivers any
 *     word that has no earlier word of the same address, and no `store_fence`, in front of it. The last word
 *     of a tagged or checksummed line waits for the others of the line.
 *   - a cache. A node may fetch a line at any time, and drop it at any time. A copy matters only
 *     where it differs from the device. So a fetch happens at the last moment at which it has
 *     the same result: just before the device changes, each other node may take a copy of the old line.
 *     A copy that is equal to the device counts as absent.
 *   - dirty lines, by `store` (plain stores): only mutants have them. Written back whole, at any time.
 *   - invalidations under way: each takes effect, once, between `invalidate` and `load_fence`.
 * Loads see the own store buffer, then the own copy, then the device.
 *
 * `quiet` is chosen at the beginning. If it is set, only events that some operation compels happen: no copy is
 * dropped, no dirty line is written back, no invalidation takes effect before its `load_fence`, and a
 * word that no `store_fence` follows stays in the store buffer unless that is full. Waits block until a new
 * look would show another value. So a process that relies on luck is found as an invalid end state (a deadlock). */

#ifdef MUTANTS
byte mutant; /* set by choose_quiet, before all else */
#define MUTANT mutant
#else
#define MUTANT 0
#endif
#ifndef READS
#define READS(n, l) true
#endif
#ifndef TAGGED
#define TAGGED(l) true
#endif
#ifndef ROOM
#define ROOM 1
#endif
#ifndef DEVICE_CHECK
#define DEVICE_CHECK skip
#endif

#define ABSENT 0
#define CLEAN 1
#define DIRTY 2
#define COPY(n, l) ((n) * LINES + (l))
#define COPIED(n, a) ((n) * LINES * WORDS + (a))
#define LINE(a) ((a) / WORDS)
#define ENTRY(n, i) ((n) * BUF + (i))

bit quiet;
byte dev[LINES * WORDS];
byte state_of[NODES * LINES];         /* of a node's copy of a line */
byte copied[NODES * LINES * WORDS];   /* its words */
bit dropping[NODES * LINES];          /* invalidated, not yet load-fenced */
#ifdef DIRTY_LINES
bit leaving[NODES * LINES];           /* dirty, and a process waits until it is written back */
#define IS_LEAVING(n, l) leaving[COPY(n, l)]
#else
#define IS_LEAVING(n, l) false
#endif
byte buffered[NODES];                 /* words in the store buffer: */
byte address_of[NODES * BUF];
byte value_of[NODES * BUF];
byte orders_before[NODES * BUF];      /* `store_fence`s in front of the word that still hold it back */
byte orders[NODES];                   /* `store_fence`s in the store buffer */

byte t_node, t_address, t_value, t_line;  /* of the present change; 0 in between */
hidden byte k, m;                         /* inside d_step only */

/* ---- what a node holds ------------------------------------------------------------------------ */

/* The result of a load of word a, apart from the own store buffer. */
#define SEEN(n, a) (state_of[COPY(n, LINE(a))] == ABSENT -> dev[a] : copied[COPIED(n, a)])

#if WORDS == 1
#define EACH_WORD(what, n, l) what(n, l, 0)
#define EQUAL(n, l) SAME(n, l, 0)
#elif WORDS == 2
#define EACH_WORD(what, n, l) what(n, l, 0); what(n, l, 1)
#define EQUAL(n, l) (SAME(n, l, 0) && SAME(n, l, 1))
#elif WORDS == 3
#define EACH_WORD(what, n, l) what(n, l, 0); what(n, l, 1); what(n, l, 2)
#define EQUAL(n, l) (SAME(n, l, 0) && SAME(n, l, 1) && SAME(n, l, 2))
#else
#error "WORDS: 1 to 3"
#endif
#if NODES == 2
#define ALL_NODES(what) what(0) what(1)
#elif NODES == 3
#define ALL_NODES(what) what(0) what(1) what(2)
#else
#error "NODES: 2 or 3"
#endif
#define IN_COPY(n, l, w) copied[COPIED(n, (l) * WORDS + w)]
#define IN_DEVICE(l, w) dev[(l) * WORDS + w]
#define SAME(n, l, w) IN_COPY(n, l, w) == IN_DEVICE(l, w)
#define CLEAR_WORD(n, l, w) IN_COPY(n, l, w) = 0
#define FETCH_WORD(n, l, w) IN_COPY(n, l, w) = IN_DEVICE(l, w)
#define SEND_WORD(n, l, w) IN_DEVICE(l, w) = IN_COPY(n, l, w)

/* Inside d_step, as all inlines up to the next rule. */
inline forget(n, l) {
  state_of[COPY(n, l)] = ABSENT;
  EACH_WORD(CLEAR_WORD, n, l)
}

inline fetch(n, l, as) {
  EACH_WORD(FETCH_WORD, n, l);
  state_of[COPY(n, l)] = as
}

#define FORGET_EQUAL(n) \
  if \
  :: state_of[COPY(n, t_line)] == CLEAN && EQUAL(n, t_line) -> forget(n, t_line) \
  :: else \
  fi;

/* Forgets copies that no longer differ from the device. */
inline forget_change() {
  ALL_NODES(FORGET_EQUAL)
  t_node = 0; t_address = 0; t_value = 0; t_line = 0
}

#define UP_TO_THEN_(count, what, n) THEN_##count(what, n)
#define UP_TO_THEN(count, what, n) UP_TO_THEN_(count, what, n)
#define THEN_0(what, n)
#define THEN_1(what, n) THEN_0(what, n) what(n, 0)
#define THEN_2(what, n) THEN_1(what, n) what(n, 1)
#define THEN_3(what, n) THEN_2(what, n) what(n, 2)
#define THEN_4(what, n) THEN_3(what, n) what(n, 3)
#define THEN_5(what, n) THEN_4(what, n) what(n, 4)
#define THEN_6(what, n) THEN_5(what, n) what(n, 5)
#define THEN_7(what, n) THEN_6(what, n) what(n, 6)
#define THEN_8(what, n) THEN_7(what, n) what(n, 7)
#define THEN_9(what, n) THEN_8(what, n) what(n, 8)
#define THEN_10(what, n) THEN_9(what, n) what(n, 9)
#define THEN_11(what, n) THEN_10(what, n) what(n, 10)
#define THEN_12(what, n) THEN_11(what, n) what(n, 11)
#define THEN_13(what, n) THEN_12(what, n) what(n, 12)
#define THEN_14(what, n) THEN_13(what, n) what(n, 13)
#define THEN_15(what, n) THEN_14(what, n) what(n, 14)
#define THEN_16(what, n) THEN_15(what, n) what(n, 15)
#ifdef COPIES
#define HOLDS(n, l) + (state_of[COPY(n, l)] != ABSENT)
#define MAY_HOLD(n) (0 UP_TO_THEN(LINES, HOLDS, n) < COPIES)
#else
#define MAY_HOLD(n) true
#endif

/* ---- changes of the device: inside atomic, t_* set ---------------------------------------------- */

/* Another node may hold the line as it was. */
#define MAY_KEEP(n) \
  if \
  :: t_node != n && READS(n, t_line) && state_of[COPY(n, t_line)] != DIRTY && MAY_HOLD(n) -> \
     d_step { fetch(n, t_line, CLEAN) } \
  :: true \
  fi;

/* Writes the whole line, including words that another node has written since. */
inline write_back(n, l) {
  t_node = n; t_line = l;
  leaving[COPY(n, l)] = 0;
  ALL_NODES(MAY_KEEP)
  d_step {
    EACH_WORD(SEND_WORD, n, l);
    forget(n, l);
    forget_change()
  };
  DEVICE_CHECK
}

inline drop_clean(n, l) {
  d_step {
    if
    :: state_of[COPY(n, l)] == CLEAN -> forget(n, l)
    :: else
    fi
  }
}

/* A dirty line is written back by `world`, in its own time but also when quiet; this waits for it. */
#ifdef DIRTY_LINES
inline drop(n, l) {
  d_step {
    leaving[COPY(n, l)] = state_of[COPY(n, l)] == DIRTY;
    drop_clean(n, l)
  };
  !leaving[COPY(n, l)]
}
#else
inline drop(n, l) {
  drop_clean(n, l)
}
#endif

inline take_entry(n, i) {
  t_node = n;
  t_address = address_of[ENTRY(n, i)];
  t_value = value_of[ENTRY(n, i)];
  t_line = LINE(t_address);
  k = i;
  do
  :: k + 1 < buffered[n] ->
     address_of[ENTRY(n, k)] = address_of[ENTRY(n, k + 1)];
     value_of[ENTRY(n, k)] = value_of[ENTRY(n, k + 1)];
     orders_before[ENTRY(n, k)] = orders_before[ENTRY(n, k + 1)];
     k++
  :: else -> break
  od;
  buffered[n]--;
  address_of[ENTRY(n, k)] = 0; value_of[ENTRY(n, k)] = 0; orders_before[ENTRY(n, k)] = 0;
  pass_orders(n)
}

/* A `store_fence` with nothing in front of it no longer holds anything back. */
inline pass_orders(n) {
  if
  :: buffered[n] == 0 -> orders[n] = 0
  :: else ->
     m = orders_before[ENTRY(n, 0)];
     orders[n] = orders[n] - m;
     k = 0;
     do
     :: k < buffered[n] -> orders_before[ENTRY(n, k)] = orders_before[ENTRY(n, k)] - m; k++
     :: else -> break
     od
  fi
}

/* Inside atomic: entry i of node n's store buffer reaches the device. */
inline deliver(n, i) {
  d_step { take_entry(n, i) };
  if
  :: dev[t_address] != t_value -> ALL_NODES(MAY_KEEP)
  :: else
  fi;
  d_step {
    dev[t_address] = t_value;
    if
    :: state_of[COPY(n, t_line)] == CLEAN -> forget(n, t_line)
    :: else
    fi;
    forget_change()
  };
  DEVICE_CHECK
}

/* May entry i go to the device? HELD: by entry j in front of it. */
#define HELD(n, j, i) \
  (address_of[ENTRY(n, j)] == address_of[ENTRY(n, i)] || \
   (LINE(address_of[ENTRY(n, j)]) == LINE(address_of[ENTRY(n, i)]) && \
    TAGGED(LINE(address_of[ENTRY(n, i)])) && address_of[ENTRY(n, i)] % WORDS == WORDS - 1))
#define READY(n, i) \
  (i < buffered[n] && orders_before[ENTRY(n, i)] == 0 && \
   (!quiet || orders[n] > 0 || buffered[n] + ROOM > BUF))
#define PICK_ENTRY(n, i) d_step { READY(n, i) && FREE##i(n) -> node = n; which = i }
#define FREE0(n) true
#define FREE1(n) !HELD(n, 0, 1)
#define FREE2(n) !HELD(n, 0, 2) && !HELD(n, 1, 2)
#define FREE3(n) !HELD(n, 0, 3) && !HELD(n, 1, 3) && !HELD(n, 2, 3)
#define FREE4(n) !HELD(n, 0, 4) && !HELD(n, 1, 4) && !HELD(n, 2, 4) && !HELD(n, 3, 4)
#define FREE5(n) \
  !HELD(n, 0, 5) && !HELD(n, 1, 5) && !HELD(n, 2, 5) && !HELD(n, 3, 5) && !HELD(n, 4, 5)

/* Drops a copy, writes back a dirty line, or lets an invalidation take effect. */
#define PICK_COPY(n, l) \
  d_step { \
    IS_LEAVING(n, l) || \
      !quiet && (state_of[COPY(n, l)] != ABSENT || dropping[COPY(n, l)]) -> node = n; which = l \
  }
#define UP_TO_0(what, n)
#define UP_TO_1(what, n) UP_TO_0(what, n) :: what(n, 0)
#define UP_TO_2(what, n) UP_TO_1(what, n) :: what(n, 1)
#define UP_TO_3(what, n) UP_TO_2(what, n) :: what(n, 2)
#define UP_TO_4(what, n) UP_TO_3(what, n) :: what(n, 3)
#define UP_TO_5(what, n) UP_TO_4(what, n) :: what(n, 4)
#define UP_TO_6(what, n) UP_TO_5(what, n) :: what(n, 5)
#define UP_TO_7(what, n) UP_TO_6(what, n) :: what(n, 6)
#define UP_TO_8(what, n) UP_TO_7(what, n) :: what(n, 7)
#define UP_TO_9(what, n) UP_TO_8(what, n) :: what(n, 8)
#define UP_TO_10(what, n) UP_TO_9(what, n) :: what(n, 9)
#define UP_TO_11(what, n) UP_TO_10(what, n) :: what(n, 10)
#define UP_TO_12(what, n) UP_TO_11(what, n) :: what(n, 11)
#define UP_TO_13(what, n) UP_TO_12(what, n) :: what(n, 12)
#define UP_TO_14(what, n) UP_TO_13(what, n) :: what(n, 13)
#define UP_TO_15(what, n) UP_TO_14(what, n) :: what(n, 14)
#define UP_TO_16(what, n) UP_TO_15(what, n) :: what(n, 15)
#define UP_TO_(count, what, n) UP_TO_##count(what, n)
#define UP_TO(count, what, n) UP_TO_(count, what, n)
#define PICK_ENTRIES(n) UP_TO(BUF, PICK_ENTRY, n)
#define PICK_COPIES(n) UP_TO(LINES, PICK_COPY, n)

active proctype world() {
  byte node, which;
end:
  do
  :: atomic {
       if
       ALL_NODES(PICK_ENTRIES)
       fi;
       deliver(node, which);
       node = 0; which = 0
     }
  :: atomic {
       if
       ALL_NODES(PICK_COPIES)
       fi;
       dropping[COPY(node, which)] = 0;
#ifdef DIRTY_LINES
       if
       :: state_of[COPY(node, which)] == DIRTY -> write_back(node, which)
       :: else -> drop_clean(node, which)
       fi;
#else
       drop_clean(node, which);
#endif
       node = 0; which = 0
     }
  od
}

/* ---- the operations ----------------------------------------------------------------------------- */
/* `site` is the number of a place in the sources; the one that equals MUTANT is weakened. */

inline put(n, a, v) {
  address_of[ENTRY(n, buffered[n])] = a;
  value_of[ENTRY(n, buffered[n])] = v;
  orders_before[ENTRY(n, buffered[n])] = orders[n];
  buffered[n]++
}

/* Puts a word by a non-temporal store; weakened: by a plain store. */
inline publish(site, n, a, v) {
  if
  :: atomic {
       MUTANT != site && buffered[n] < BUF -> drop(n, LINE(a));
       d_step { put(n, a, v) }
     }
#ifdef DIRTY_LINES
  :: d_step { MUTANT == site -> store(n, a, v) }
#endif
  fi
}

/* Inside d_step. */
inline store(n, a, v) {
  if
  :: state_of[COPY(n, LINE(a))] == ABSENT -> fetch(n, LINE(a), DIRTY)
  :: else -> state_of[COPY(n, LINE(a))] = DIRTY
  fi;
  copied[COPIED(n, a)] = v
}

/* A line of two words, the second last. */
inline publish_pair(site, n, a, v, w) {
  if
  :: atomic {
       MUTANT != site && buffered[n] + 1 < BUF -> drop(n, LINE(a));
       d_step { put(n, a, v); put(n, (a) + 1, w) }
     }
#ifdef DIRTY_LINES
  :: d_step { MUTANT == site -> store(n, a, v); store(n, (a) + 1, w) }
#endif
  fi
}

#define ORDERED(n) \
  (buffered[n] == 0 || orders_before[ENTRY(n, buffered[n] - 1)] < orders[n])

inline store_fence(site, n) {
  if
  :: d_step { MUTANT != site && !ORDERED(n) -> orders[n]++ }
  :: else
  fi
}

inline full_fence(site, n) {
  if
  :: d_step { !ORDERED(n) -> orders[n]++ }
  :: else
  fi;
  (MUTANT == site || buffered[n] == 0)
}

inline invalidate(site, n, l) {
  if
  :: d_step { MUTANT != site -> dropping[COPY(n, l)] = 1 }
  :: else
  fi
}

#ifdef DIRTY_LINES
#define LOAD_FENCE_LINE(n, l) \
  if \
  :: state_of[COPY(n, l)] == DIRTY -> leaving[COPY(n, l)] = 1 \
  :: else -> forget(n, l) \
  fi
#define OR_LEAVING(n, l) || leaving[COPY(n, l)]
#define SETTLED(n) !(false UP_TO_THEN(LINES, OR_LEAVING, n))
#else
#define LOAD_FENCE_LINE(n, l) forget(n, l)
#define SETTLED(n) true
#endif

inline load_fence(site, n) {
  if
  :: d_step {
       MUTANT != site -> m = 0;
       do
       :: m < LINES && dropping[COPY(n, m)] ->
          dropping[COPY(n, m)] = 0;
          LOAD_FENCE_LINE(n, m);
          m++
       :: m < LINES && !dropping[COPY(n, m)] -> m++
       :: m == LINES -> break
       od
     };
     SETTLED(n)
  :: else
  fi
}

/* One word, as this node sees it. */
inline load(n, a, v) {
  d_step {
    k = buffered[n];
    do
    :: k > 0 && address_of[ENTRY(n, k - 1)] != (a) -> k--
    :: k > 0 && address_of[ENTRY(n, k - 1)] == (a) -> v = value_of[ENTRY(n, k - 1)]; break
    :: k == 0 -> v = SEEN(n, a); break
    od
  }
}

/* Invalidate, load_fence, load. Invalidations and the load_fence right after them may be one step: only a
 * copy that is fetched after the first has taken effect can come in between, and it can also come after a
 * step that is made at the moment of the first effect. */
inline observe(i_site, s_site, n, a, v) {
  atomic {
    invalidate(i_site, n, LINE(a));
    load_fence(s_site, n)
  };
  load(n, a, v)
}

/* For polls that found v: another look finds the same until this holds. */
#define ANOTHER(i_site, s_site, n, a, v) \
  ((MUTANT != i_site && MUTANT != s_site -> dev[a] : SEEN(n, a)) != (v))

inline choose_quiet() {
#ifdef MUTANTS
  c_code { now.mutant = getenv("MUTANT") ? atoi(getenv("MUTANT")) : 0; };
#endif
  if
  :: quiet = 0
  :: quiet = 1
  fi
}

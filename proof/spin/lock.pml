/* Lock: src/sync/lock.cpp (Lock::acquire, release, take_over; Entries; Queue), Lamport's bakery.
 *
 * Participant 0 has two processes one after the other: the first (token 1) may be killed between any
 * two steps, holding or not; the second (token 2) takes over the same line when the first is dead or
 * done. The others (tokens 3, 4) have one process each. Under the lock each observes a line of data,
 * finds the last holder's value there, and publishes a new one.
 * In the world `torn` the words token, number with choosing, and checksum of a line arrive separately, the
 * checksum last, and are loaded separately, the checksum first; a killed process may have written a part of them.
 * In the world `shared` participant 0 wants the lock alone, and the others share it: they observe the data
 * and publish nothing. In the world `way` it also makes way at any time for a sharer of the lock: it
 * withdraws its number, waits until the sharer's number changes, and asks again.
 * Proved: one living holder at a time, or those who share it; the holder sees what earlier holders
 * published; no process waits for ever, also not for a dead one. Assumed: a process that is found dead has an
 * empty store buffer; its stores have arrived or, if its host is lost, never will.
 * Bounds: 2 participants (2 acquisitions by the living one); torn, and with 3 participants of which none
 * dies, one acquisition each and no stale copies. In the long form also torn with 1 stale copy a node, and
 * 3 participants of which one dies and has no successor. Left out: deadlines. */
/* run two: -DPARTICIPANTS=2 -DTIMES=2 */
/* also torn: -DPARTICIPANTS=2 -DTIMES=1 -DTORN -DCOPIES=0 */
/* also three: -DPARTICIPANTS=3 -DTIMES=1 -DCOPIES=0 -DNO_SUCCESSOR -DIMMORTAL */
/* also shared: -DPARTICIPANTS=3 -DTIMES=1 -DCOPIES=0 -DNO_SUCCESSOR -DIMMORTAL -DSHARED */
/* also way: -DPARTICIPANTS=2 -DTIMES=2 -DIMMORTAL -DSHARED -DWAY */
/* long torn_stale: -DPARTICIPANTS=2 -DTIMES=1 -DTORN -DCOPIES=1 */
/* long three_mortal: -DPARTICIPANTS=3 -DTIMES=1 -DCOPIES=0 -DNO_SUCCESSOR */
#if PARTICIPANTS == 3
#define NODES 3
#define LINES 4
#else
#define NODES 2
#define LINES 3
#endif
#define DATA PARTICIPANTS
#ifdef TORN
#define WORDS 3
#define BUF 4
#define TAGGED(l) ((l) < PARTICIPANTS)
#else
#define WORDS 1
#define BUF 2
#endif
#define READS(n, l) ((l) != (n) && !gone[n])
bool gone[PARTICIPANTS]; /* all processes of the participant are done */

#define PUBLISH_ENTRY 1         /* site publish: Entries::publish */
#define FULL_FENCE_ENTRY 2      /* site full_fence: Entries::publish */
#define INVALIDATE_OTHERS 3     /* site invalidate: Entries::refresh */
#define LOAD_FENCE_OTHERS 4         /* site load_fence: Entries::refresh */
#define STORE_FENCE_RELEASE 5         /* site store_fence: Lock::release */
#define PUBLISH_DATA 6          /* site publish: the user's data */
#define INVALIDATE_DATA 7       /* site invalidate: the user's observe */
#define LOAD_FENCE_DATA 8           /* site load_fence: the user's observe */

#include "memory.pml"

#define PACK(token, choosing, number) ((token) + 8 * (choosing) + 16 * (number))
#define TOKEN(line) ((line) & 7)
#define CHOOSING(line) ((line) >> 3 & 1)
#define NUMBER(line) ((line) >> 4)
#define NODE_OF(token) ((token) <= 2 -> 0 : (token) - 2)
#define TORN_LINE 255

bool dead_token[5];
byte holders;    /* a bit for each living holder */
byte left;       /* the last holder's value of the data */
bool data_lost;  /* it died before that value arrived */

#define FOUND_DEAD(token) (dead_token[token] && buffered[NODE_OF(token)] == 0)

inline publish_entry(choosing, number) {
#ifdef TORN
  publish(PUBLISH_ENTRY, self, self * WORDS, token);
  publish(PUBLISH_ENTRY, self, self * WORDS + 1, (choosing) + 2 * (number));
  publish(PUBLISH_ENTRY, self, self * WORDS + 2, PACK(token, choosing, number));
#else
  publish(PUBLISH_ENTRY, self, self * WORDS, PACK(token, choosing, number));
#endif
  full_fence(FULL_FENCE_ENTRY, self)
}

/* Stores the line of i into last[i]; if it is not whole, TORN_LINE, and its token into rival[i]. */
inline load_entry(i) {
#ifdef TORN
  load(self, (i) * WORDS + 2, checksum);
  load(self, (i) * WORDS, seen);
  load(self, (i) * WORDS + 1, rest);
  d_step {
    rival[i] = seen;
    if
    :: checksum == seen + 8 * rest -> last[i] = checksum
    :: else -> last[i] = TORN_LINE
    fi;
    checksum = 0; seen = 0; rest = 0
  }
#else
  d_step {
    load(self, i, last[i]);
    rival[i] = TOKEN(last[i])
  }
#endif
}

/* A new look at i may differ from the last one. */
#ifdef TORN
#define NEWS(i) \
  (IS_PENDING(i) && \
   (ANOTHER(INVALIDATE_OTHERS, LOAD_FENCE_OTHERS, self, (i) * WORDS + 2, last[i]) || \
    ANOTHER(INVALIDATE_OTHERS, LOAD_FENCE_OTHERS, self, (i) * WORDS, TOKEN(last[i])) || \
    ANOTHER(INVALIDATE_OTHERS, LOAD_FENCE_OTHERS, self, (i) * WORDS + 1, last[i] >> 3)))
#else
#define NEWS(i) (IS_PENDING(i) && ANOTHER(INVALIDATE_OTHERS, LOAD_FENCE_OTHERS, self, i, last[i]))
#endif

#ifdef SHARED
#define SHARES(i) ((i) != 0) /* its line says so, with the number */
#define IN_MY_WAY 1          /* the bit of participant 0 */
#else
#define SHARES(i) false
#define IN_MY_WAY 255
#endif

#define IS_PENDING(i) (pending >> (i) & 1)
#define BEHIND_ME(i) \
  (chosen >> (i) & 1 && (NUMBER(last[i]) == 0 || NUMBER(last[i]) > number || \
                         (NUMBER(last[i]) == number && (i) > self) || (SHARES(self) && SHARES(i))))

inline refresh(i) {
  if
  :: IS_PENDING(i) -> invalidate(INVALIDATE_OTHERS, self, i)
  :: else
  fi
}

/* number == 0: reads numbers; else waits for the participants in front. */
inline step(i) {
  if
  :: IS_PENDING(i) ->
     load_entry(i);
     d_step {
       if
       :: last[i] == TORN_LINE
       :: last[i] != TORN_LINE && number == 0 ->
          if
          :: NUMBER(last[i]) > greatest -> greatest = NUMBER(last[i])
          :: else
          fi;
          busy = busy | CHOOSING(last[i]) | (NUMBER(last[i]) != 0);
          done_with(i)
       :: else ->
          if
          :: !CHOOSING(last[i]) -> chosen = chosen | 1 << (i)
          :: else
          fi;
          if
          :: BEHIND_ME(i) -> done_with(i)
          :: else
          fi
       fi
     }
  :: else
  fi
}

inline done_with(i) {
  pending = pending & ~(1 << (i));
  last[i] = 0;
  rival[i] = 0
}

#define PASS_OVER(i) :: d_step { IS_PENDING(i) && FOUND_DEAD(rival[i]) -> done_with(i) }

#ifdef WAY
#define MAKE_WAY(i) \
  :: d_step { number != 0 && self == 0 && IS_PENDING(i) && SHARES(i) && NUMBER(last[i]) != 0 -> \
       way = NUMBER(last[i]); pending = 0 }
#else
#define MAKE_WAY(i)
#endif

inline pass_all() {
  pending = (1 << PARTICIPANTS) - 1 & ~(1 << self);
  do
  :: atomic {
       refresh(0);
       refresh(1);
#if PARTICIPANTS == 3
       refresh(2);
#endif
       load_fence(LOAD_FENCE_OTHERS, self)
     };
     step(0);
     step(1);
#if PARTICIPANTS == 3
     step(2);
#endif
     if
     :: pending == 0 -> break
     :: else ->
        if
        PASS_OVER(0)
        PASS_OVER(1)
        MAKE_WAY(1)
        :: NEWS(0) || NEWS(1)
#if PARTICIPANTS == 3
        PASS_OVER(2)
        :: NEWS(2)
#endif
        fi;
        if
        :: pending == 0 -> break
        :: else
        fi
     fi
  od
}

/* Without an invalidation: only the own node writes this line. */
inline take_over() {
#ifdef TORN
  load(self, self * WORDS + 2, checksum);
  load(self, self * WORDS, seen);
  load(self, self * WORDS + 1, rest);
  if
  :: d_step { seen != token || checksum != seen + 8 * rest -> seen = 0; checksum = 0; rest = 0 };
     publish_entry(0, 0)
  :: d_step { else -> seen = 0; checksum = 0; rest = 0 }
  fi
#else
  load(self, self, seen);
  if
  :: d_step { TOKEN(seen) != token -> seen = 0 };
     publish_entry(0, 0)
  :: d_step { else -> seen = 0 }
  fi
#endif
}

#ifdef WAY
/* Waits for participant 1 until its number is not `way`. */
inline await_that_it_goes() {
  do
  :: atomic { invalidate(INVALIDATE_OTHERS, self, 1); load_fence(LOAD_FENCE_OTHERS, self) };
     load_entry(1);
     if
     :: d_step { NUMBER(last[1]) != way -> way = 0; last[1] = 0; rival[1] = 0 }; break
     :: d_step { NUMBER(last[1]) == way -> pending = 2 };
        NEWS(1);
        pending = 0
     fi
  od
}
#endif

#ifdef WAY
#define DRAWN drawn = number /* no number is drawn twice */
#else
#define DRAWN skip
#endif

inline draw_number() {
  d_step {
    number = (greatest > drawn -> greatest : drawn) + 1;
    DRAWN;
    greatest = 0;
    busy = false
  }
}
inline acquire() {
  take_over();
  do
  :: publish_entry(1, 0);
     pass_all();
     if
     :: d_step { !busy && !SHARES(self) -> skip }; break /* held, still choosing */
     :: else
     fi;
     draw_number();
     publish_entry(0, number);
     pass_all();
     atomic { number = 0; chosen = 0 };
     if
     :: way == 0 -> break
     :: else
     fi;
#ifdef WAY
     publish_entry(0, 0);
     await_that_it_goes()
#endif
  od
}

inline release() {
  store_fence(STORE_FENCE_RELEASE, self);
  publish_entry(0, 0)
}

inline use() {
  d_step {
    assert(holders == 0 || SHARES(self) && !(holders & IN_MY_WAY));
    holders = holders | 1 << self
  };
  observe(INVALIDATE_DATA, LOAD_FENCE_DATA, self, DATA * WORDS, seen);
  assert(seen == left || data_lost);
  if
  :: SHARES(self) -> seen = 0
  :: else ->
     d_step { left = seen + 1; data_lost = true; seen = 0 };
     publish(PUBLISH_DATA, self, DATA * WORDS, left);
     data_lost = false
  fi;
  holders = holders & ~(1 << self)
}

inline work(times) {
  do
  :: turn < times ->
     acquire();
     use();
     release();
     turn++
  :: else -> turn = 0; break
  od
}

#define LOCALS \
  byte pending, chosen, number, greatest, seen, checksum, rest, turn, drawn, way; \
  bool busy; \
  byte last[PARTICIPANTS]; \
  byte rival[PARTICIPANTS]

proctype participant(byte self, token) {
  LOCALS;
  work(TIMES);
  gone[self] = true
}

inline forget_all() {
  pending = 0; chosen = 0; number = 0; greatest = 0; busy = false; seen = 0; checksum = 0; rest = 0; turn = 0;
  drawn = 0; way = 0;
  last[0] = 0; last[1] = 0; rival[0] = 0; rival[1] = 0;
#if PARTICIPANTS == 3
  last[2] = 0; rival[2] = 0;
#endif
}

bool first_done;

/* Inside d_step: loses the youngest word in participant 0's store buffer. */
inline lose_last() {
  buffered[0]--;
  data_lost = data_lost || address_of[ENTRY(0, buffered[0])] == DATA * WORDS;
  address_of[ENTRY(0, buffered[0])] = 0;
  value_of[ENTRY(0, buffered[0])] = 0;
  orders_before[ENTRY(0, buffered[0])] = 0;
  if
  :: buffered[0] == 0 -> orders[0] = 0
  :: else
  fi
}

proctype mortal(byte self, token) {
  LOCALS;
  {
    work(1);
    first_done = true
  } unless {
    dead_token[1]
  };
  atomic { forget_all() };
  /* Its buffered stores arrive, or are lost. */
  do
  :: buffered[0] == 0 -> break
  :: d_step { dead_token[1] && buffered[0] > 0 -> lose_last() }
  od;
#ifndef NO_SUCCESSOR
  token = 2;
  work(1);
#endif
  gone[self] = true
}

proctype killer() {
  if
  :: atomic { !first_done -> dead_token[1] = true; holders = holders & ~1 }
  :: true
  fi
}

init {
  atomic {
    choose_quiet();
#ifndef IMMORTAL
    run killer();
#endif
    run mortal(0, 1);
    run participant(1, 3);
#if PARTICIPANTS == 3
    run participant(2, 4)
#endif
  }
}

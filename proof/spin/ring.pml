/* Ring and credits: src/transport/tx_parts.cpp (room, refresh_credits), tx_ring.hpp (write), eager.cpp (put, receive) and
 * src/transport/rx_ring.cpp (invalidate_window, drop_consumed, freshen), rx_channel.cpp (poll, poll_header),
 * rx_parts.cpp (return_credits).
 *
 * A ring of RING lines. The sender puts messages of one or two lines (its choice) until it has sent
 * MESSAGE_LINES lines; it waits for credit if there is no room. The receiver polls a window of lines,
 * takes what the tags allow, and returns credits.
 * A line is payload and tag. Line i holds payload i + 1 and the tag i + 1 (the nonce is 0; zeroed
 * memory holds no tag of it). In the world `whole` a line arrives whole and is one word; in `torn` its
 * two words arrive separately, the tag last, and are loaded separately, the tag first.
 * Proved: the receiver takes line after line, each with its own payload, none lost, doubled,
 * reordered or overwritten before it is read; sender and receiver never wait for ever.
 * Bounds: RING 2, MESSAGE_LINES 6 (three laps) whole, 5 torn; a window of up to 2 lines. Left out: the
 * mailbox (a hint), bulk cells, closing and death, a nonce of an earlier owner of the memory. */
/* run whole: -DMESSAGE_LINES=6 */
/* run torn: -DTORN -DMESSAGE_LINES=5 */
#define RING 2
#define NODES 2
#define LINES 3
#define CREDITS 2
#ifdef TORN
#define WORDS 2
#define BUF 5
#define ROOM 2
#define TAGGED(l) ((l) < RING)
#else
#define WORDS 1
#define BUF 3
#endif
#define READS(n, l) ((n) == 0 && (l) == CREDITS || (n) == 1 && (l) < RING)

#define PUBLISH_LINE 1         /* site publish: TxRing::write, write_tagged: ring lines */
#define STORE_FENCE_MESSAGE 2        /* site store_fence: inlined::put, eager::put: at the end */
#define INVALIDATE_CREDITS 3   /* site invalidate: refresh_credits */
#define LOAD_FENCE_CREDITS 4       /* site load_fence: refresh_credits */
#define INVALIDATE_WINDOW 5    /* site invalidate: invalidate_window */
#define LOAD_FENCE_POLL 6          /* site load_fence: prepare_poll */
#define INVALIDATE_CONSUMED 7  /* site invalidate: drop_consumed */
#define INVALIDATE_REST 8      /* site invalidate: freshen */
#define LOAD_FENCE_REST 9          /* site load_fence: freshen */
#define PUBLISH_CREDITS 10     /* site publish: return_credits */
#define STORE_FENCE_CREDITS 11       /* site store_fence: return_credits */

/* equivalent INVALIDATE_CONSUMED: lines that were read are dropped early so that the next lap finds no
 * copies. This affects only speed: the tag decides whether a line is new, and a look that meets an old copy
 * invalidates it (invalidate_window, freshen). */
/* equivalent INVALIDATE_REST: the next poll looks again at a message whose next line has not arrived,
 * and every poll drops the copy of the line at the tail (invalidate_window). The looks in between affect
 * only speed. */
/* equivalent LOAD_FENCE_REST: as INVALIDATE_REST. */

#include "memory.pml"

#define AT(i) ((i) % RING * WORDS)
#define TAG(i) (AT(i) + WORDS - 1)

byte head, tail; /* the sender's and the receiver's own; global only for the checks */

/* ---- sender: node 0 ------------------------------------------------------------------------------ */

#define HAS_ROOM(lines) (head + lines - consumed <= RING)

/* TxParts::room, until there is room. */
inline wait_for_room(lines) {
  do
  :: HAS_ROOM(lines) -> break
  :: else ->
     observe(INVALIDATE_CREDITS, LOAD_FENCE_CREDITS, 0, CREDITS * WORDS, seen);
     d_step {
       assert(seen <= head);
       if
       :: seen > consumed -> consumed = seen
       :: else
       fi;
       seen = 0
     };
     (HAS_ROOM(lines) || ANOTHER(INVALIDATE_CREDITS, LOAD_FENCE_CREDITS, 0, CREDITS * WORDS, consumed))
  od
}

inline put_line() {
  head++;
#ifdef TORN
  publish_pair(PUBLISH_LINE, 0, AT(head - 1), head, head)
#else
  publish(PUBLISH_LINE, 0, AT(head - 1), head)
#endif
}

proctype sender() {
  byte consumed, seen;
  do
  :: head + 1 <= MESSAGE_LINES ->
     wait_for_room(1);
     put_line();
     store_fence(STORE_FENCE_MESSAGE, 0)
  :: head + 2 <= MESSAGE_LINES ->
     wait_for_room(2);
     put_line();
     put_line();
     store_fence(STORE_FENCE_MESSAGE, 0)
  :: head == MESSAGE_LINES -> break
  od;
  consumed = 0
}

/* ---- receiver: node 1 ---------------------------------------------------------------------------- */

/* Takes the payload of a line whose tag is right. */
inline take_line() {
#ifdef TORN
  load(1, AT(tail), seen);
#endif
  d_step {
    assert(seen == tail + 1);
    assert(tail < head);
    seen = 0;
    tail++
  }
}

/* RxRing::invalidate_window and Endpoint::Impl::prepare_poll: the consumed lines, then the window up
 * to the end of the ring; one load_fence. */
inline prepare_poll() {
  atomic {
    do
    :: cached_from < tail -> invalidate(INVALIDATE_CONSUMED, 1, cached_from % RING); cached_from++
    :: else -> break
    od;
    invalidate(INVALIDATE_WINDOW, 1, tail % RING);
    fresh_until = tail + 1;
    if
    :: window == 2 && tail % RING == 0 ->
       invalidate(INVALIDATE_WINDOW, 1, 1);
       fresh_until = tail + 2
    :: else
    fi;
    load_fence(LOAD_FENCE_POLL, 1)
  }
}

/* RxRing::freshen of the one line at tail. */
inline freshen() {
  if
  :: fresh_until <= tail ->
     atomic {
       invalidate(INVALIDATE_REST, 1, tail % RING);
       load_fence(LOAD_FENCE_REST, 1);
       fresh_until = tail + 1
     }
  :: else
  fi
}

/* The line at tail follows in the same message (the sender's choice is in the pool as the message's
 * length; here the receiver looks for a second line at any time, which covers both): a look without
 * an invalidation first, then with one. */
inline receive_eager() {
  load(1, TAG(tail), seen);
  if
  :: seen == tail + 1 -> take_line()
  :: else ->
     seen = 0;
     fresh_until = tail;
     freshen();
     load(1, TAG(tail), seen);
     if
     :: seen == tail + 1 -> take_line()
     :: else -> seen = 0
     fi
  fi
}

inline return_credits() {
  publish(PUBLISH_CREDITS, 1, CREDITS * WORDS, tail);
  store_fence(STORE_FENCE_CREDITS, 1);
  credited = tail
}

proctype receiver() {
  byte cached_from, fresh_until, credited, seen;
  byte window = 1;
  do
  :: tail < MESSAGE_LINES ->
     prepare_poll();
     /* poll_header for each line of the window */
     do
     :: tail < fresh_until && tail < MESSAGE_LINES ->
        load(1, TAG(tail), seen);
        if
        :: seen == tail + 1 ->
           take_line();
           if
           :: tail < MESSAGE_LINES -> receive_eager()
           :: true
           fi
        :: else -> seen = 0; break
        fi
     :: else -> break
     od;
     if
     :: window = 1
     :: window = 2
     fi;
     /* if more than a quarter of the ring is owed; after empty polls, whatever is owed */
     if
     :: tail > credited -> return_credits()
     :: else ->
        (tail == MESSAGE_LINES ||
         ANOTHER(INVALIDATE_WINDOW, LOAD_FENCE_POLL, 1, TAG(tail), SEEN(1, TAG(tail))) ||
         SEEN(1, TAG(tail)) == tail + 1)
     fi
  :: else -> break
  od;
  atomic { cached_from = 0; fresh_until = 0; credited = 0; window = 0 }
}

init {
  atomic {
    choose_quiet();
    run sender();
    run receiver()
  }
}

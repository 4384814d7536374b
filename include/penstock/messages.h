/* Messages for C: tagged sends and receives between the processes of a pool.
 *
 * Results, ownership, units: penstock.h.
 * Order      Messages from one rank to another with one tag are received in the order in which they
 *            were sent. Messages and collectives are independent of each other.
 * Threads    One thread at a time uses a messenger and its requests.
 * Memory     Buffers are ordinary memory of the process, in the pool or not.
 * Source     cMPI, section 3.3; docs/protocols/channel.md.
 */
#ifndef PENSTOCK_MESSAGES_H
#define PENSTOCK_MESSAGES_H

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct penstock_messenger penstock_messenger_t; /* given back to penstock_messenger_close */
typedef struct penstock_request penstock_request_t;     /* given back to penstock_request_free */

#define PENSTOCK_ANY_RANK UINT32_MAX

typedef struct {
  size_t struct_bytes; /* sizeof(penstock_messenger_options_t) */
  uint32_t rank, ranks;
  const char* name; /* in messages: "process group 3"; NULL: "group" */
  /* Longer messages, in bytes, leave their sender when they are received, and not before: the
   * receiver copies none of them twice. 0: those of a 16th of PENSTOCK_UNEXPECTED_BYTES. */
  uint64_t longest_unasked;
} penstock_messenger_options_t;

/* The address by which others reach a messenger. Plain bytes, passed on by any means. */
typedef struct {
  uint64_t words[3];
} penstock_address_t;

/* Opens a messenger. Not collective. The channels of a pair are made at its first message. Errors:
 * invalid_argument, no_space, no_slots. */
PENSTOCK_API penstock_status_t penstock_messenger_open(penstock_pool_t* pool,
                                                       const penstock_messenger_options_t* options,
                                                       penstock_messenger_t** messenger);
/* Closes the messenger. Requests that are not done will never be: their buffers may be used again,
 * and the requests may only be freed. Messages that were sent and not yet received stay for their
 * receivers; the call waits for these for 20 ms at most. NULL is ignored. */
PENSTOCK_API void penstock_messenger_close(penstock_messenger_t* messenger);

PENSTOCK_API void penstock_messenger_address(const penstock_messenger_t* messenger,
                                             penstock_address_t* address);
/* Makes `rank` reachable, which may be this one: call it once. Messages to `rank` wait for it, and
 * fail if it fails; receiving needs no address. Errors: invalid_argument, mismatch (another pool),
 * not_found (that messenger is closed). */
PENSTOCK_API penstock_status_t penstock_messenger_meet(penstock_messenger_t* messenger,
                                                       uint32_t rank,
                                                       const penstock_address_t* address);
/* Names the process of `rank`: `token` of its penstock_pool_info. When it has died or detached, and
 * none of its messages is left, the requests fail that wait for `rank`. Of ranks that were met or
 * have sent, that is known without this call. When all other ranks have ended, so do receives from
 * any. Errors: invalid_argument. */
PENSTOCK_API penstock_status_t penstock_messenger_expect(penstock_messenger_t* messenger,
                                                         uint32_t rank, uint64_t token);

/* Begins to send. `data` must stay unchanged until the request is done. */
PENSTOCK_API penstock_status_t penstock_message_send(penstock_messenger_t* messenger, uint32_t to,
                                                     uint64_t tag, const void* data, uint64_t bytes,
                                                     penstock_request_t** request);
/* Begins to receive a message with `tag` from rank `from` (PENSTOCK_ANY_RANK: any) into `data`. */
PENSTOCK_API penstock_status_t penstock_message_receive(penstock_messenger_t* messenger,
                                                        uint32_t from, uint64_t tag, void* data,
                                                        uint64_t bytes,
                                                        penstock_request_t** request);
/* Advances all requests and returns at once: 1 if anything has moved. Call it again and again while
 * a request is not done, and once more after all are: ranks that close then need not wait for this
 * one. */
PENSTOCK_API int penstock_messenger_progress(penstock_messenger_t* messenger);

typedef struct {
  int done;
  uint32_t source; /* for a receive that is done: the sender's rank */
  uint64_t bytes;  /* ... and the length of its message, 0 until it has met one */
} penstock_request_info_t;

/* Reports how far a request is; makes no progress. Once it is done, the status is its outcome.
 * Errors: peer_dead, invalid_argument (the buffer was too short; it holds the message's beginning).
 */
PENSTOCK_API penstock_status_t penstock_request_test(const penstock_request_t* request,
                                                     penstock_request_info_t* info);
/* Frees a request that is done, or whose messenger is closed. NULL is ignored. */
PENSTOCK_API void penstock_request_free(penstock_request_t* request);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_MESSAGES_H */

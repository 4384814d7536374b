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
} penstock_messenger_options_t;

/* By which a messenger is reached. Plain bytes, to be given to others by any means. */
typedef struct {
  uint64_t words[3];
} penstock_address_t;

/* Not collective. Channels are made at a pair's first message. Errors: invalid_argument, no_space,
 * no_slots. */
PENSTOCK_API penstock_status_t penstock_messenger_open(penstock_pool_t* pool,
                                                       const penstock_messenger_options_t* options,
                                                       penstock_messenger_t** messenger);
/* Requests that are not done never will be: their buffers may be used again, and they are only
 * freed afterwards. Messages that are not received yet stay for their receivers; closing waits
 * 20 ms for these at most. NULL is ignored. */
PENSTOCK_API void penstock_messenger_close(penstock_messenger_t* messenger);

PENSTOCK_API void penstock_messenger_address(const penstock_messenger_t* messenger,
                                             penstock_address_t* address);
/* Before the first message to `rank`; what comes from it needs no address. Errors:
 * invalid_argument, mismatch (another pool), not_found (it is closed). */
PENSTOCK_API penstock_status_t penstock_messenger_meet(penstock_messenger_t* messenger,
                                                       uint32_t rank,
                                                       const penstock_address_t* address);

/* Begins to send. `data` stays as it is until the request is done. */
PENSTOCK_API penstock_status_t penstock_message_send(penstock_messenger_t* messenger, uint32_t to,
                                                     uint64_t tag, const void* data, uint64_t bytes,
                                                     penstock_request_t** request);
/* Begins to receive a message of `tag` from rank `from`, or PENSTOCK_ANY_RANK, into `data`. */
PENSTOCK_API penstock_status_t penstock_message_receive(penstock_messenger_t* messenger,
                                                        uint32_t from, uint64_t tag, void* data,
                                                        uint64_t bytes,
                                                        penstock_request_t** request);
/* Makes all requests go on; returns at once. Returns 1 if something has moved. To be called again
 * and again while a request is not done, and once after all are: ranks that close then need not
 * wait for this one. */
PENSTOCK_API int penstock_messenger_progress(penstock_messenger_t* messenger);

typedef struct {
  int done;
  uint32_t source; /* of a receive: the sender's rank */
  uint64_t bytes;  /* ... and the length of its message */
} penstock_request_info_t;

/* How far a request is; no progress. Once done, the status is its outcome. Errors: peer_dead,
 * invalid_argument (the message is longer than the buffer, which holds its beginning). */
PENSTOCK_API penstock_status_t penstock_request_test(const penstock_request_t* request,
                                                     penstock_request_info_t* info);
/* Of a request that is done, or whose messenger is closed. NULL is ignored. */
PENSTOCK_API void penstock_request_free(penstock_request_t* request);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_MESSAGES_H */

// Requests of collective calls in the pool. The program sees each as a generalized request of the
// MPI, so it can be in one array with the MPI's own requests. It is completed, and its error
// reported, in a call of the program that waits or tests (request_calls.cpp).
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "coll/queue.hpp"
#include "collective_arguments.hpp"
#include "pool_comms.hpp"

namespace penstock::mpi {

/// A collective call with its arguments and schedule. A persistent call is started many times.
struct CallTemplate {
  std::shared_ptr<PoolComm> comm;
  const char* name = "";
  CollectiveArguments arguments;
  std::shared_ptr<const coll::Prepared> schedule;
};

/// A call that has begun.
struct PoolRequest {
  std::shared_ptr<CallTemplate> call;
  coll::QueuedCall queued;
  Handle handle = 0;       ///< the generalized request
  bool completed = false;  ///< completed in the MPI
  bool freed = false;      ///< freed by the program
};

/// A persistent call. Its handle is a persistent request of the MPI that is never started. When the
/// program waits for it, the MPI is given the active request's handle instead.
struct Persistent {
  std::shared_ptr<CallTemplate> call;
  std::shared_ptr<PoolRequest> active;  ///< null: inactive
};

/// Number of requests of either kind that the program holds, or freed before they ended. 0 in
/// programs that use none.
extern std::atomic<std::uint32_t> pool_requests;
inline bool have_pool_requests() {
  return pool_requests.load(std::memory_order_relaxed) != 0;
}

/// Begins the call and stores its handle at `request`. Returns the MPI's status.
int begin_request(const std::shared_ptr<CallTemplate>& call, void* request);
int make_persistent(const std::shared_ptr<CallTemplate>& call, void* request);
int start(Persistent& persistent);

struct FoundRequest {
  std::shared_ptr<PoolRequest> request;    ///< null: not ours, or inactive
  std::shared_ptr<Persistent> persistent;  ///< null: not persistent
};
/// Looks up an array of `n` handles.
void find_requests(const void* handles, std::size_t n, std::vector<FoundRequest>& found);
FoundRequest find_request(Handle handle);

/// Advances all calls, and completes those that have ended in the MPI.
void advance_requests();
/// Removes a request whose end the program has seen.
void forget(const FoundRequest& found);
/// Called when the program frees the request. A call in progress continues.
void free_request(const FoundRequest& found, Handle handle);

}  // namespace penstock::mpi

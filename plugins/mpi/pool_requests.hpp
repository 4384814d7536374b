// Requests of collective calls in the pool. To the program each is a generalized request of the
// MPI, so that it may stand in one array with the MPI's own. The MPI is told that it is complete in
// a call of the program that waits or tests (request_calls.cpp), which is also where an error
// comes.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "coll/queue.hpp"
#include "collective_arguments.hpp"
#include "pool_comms.hpp"

namespace penstock::mpi {

/// A call with all that it needs, which may be made again and again.
struct CallTemplate {
  std::shared_ptr<PoolComm> comm;
  const char* name = "";
  CollectiveArguments arguments;
  std::shared_ptr<const coll::Prepared> schedule;
};

/// A call that was begun.
struct PoolRequest {
  std::shared_ptr<CallTemplate> call;
  coll::QueuedCall queued;
  Handle handle = 0;       ///< of the generalized request
  bool completed = false;  ///< the MPI was told
  bool freed = false;      ///< by the program
};

/// What a persistent call is to the program: a persistent request of the MPI that is never started.
/// Where the program waits for it the MPI is asked about the request behind it.
struct Persistent {
  std::shared_ptr<CallTemplate> call;
  std::shared_ptr<PoolRequest> active;  ///< null: inactive
};

/// Requests of either kind that the program holds, or freed before the end; 0 in programs without.
extern std::atomic<std::uint32_t> pool_requests;
inline bool have_pool_requests() {
  return pool_requests.load(std::memory_order_relaxed) != 0;
}

/// Begins the call; its handle goes to `request`. Returns the MPI's status.
int begin_request(const std::shared_ptr<CallTemplate>& call, void* request);
int make_persistent(const std::shared_ptr<CallTemplate>& call, void* request);
int start(Persistent& persistent);

struct FoundRequest {
  std::shared_ptr<PoolRequest> request;    ///< null: not one of ours, or an inactive one
  std::shared_ptr<Persistent> persistent;  ///< null: not persistent
};
/// `n` handles in memory.
void find_requests(const void* handles, std::size_t n, std::vector<FoundRequest>& found);
FoundRequest find_request(Handle handle);

/// Goes on with all calls, and tells the MPI of those that are over.
void advance_requests();
/// The program has seen its end.
void forget(const FoundRequest& found);
/// The program frees it: a call in progress goes on.
void let_go(const FoundRequest& found, Handle handle);

}  // namespace penstock::mpi

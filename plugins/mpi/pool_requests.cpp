#include "pool_requests.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "held_handles.hpp"
#include "pmpi.hpp"
#include "queue_thread.hpp"

namespace penstock::mpi {

std::atomic<std::uint32_t> pool_requests{0};

namespace {

struct Tables {
  std::mutex mutex;
  std::unordered_map<Handle, std::shared_ptr<PoolRequest>> requests;
  std::unordered_map<Handle, std::shared_ptr<Persistent>> persistent;
  std::vector<std::shared_ptr<PoolRequest>> incomplete;  ///< not yet completed in the MPI
};
Tables& tables() {
  static auto* all = new Tables;  // never destroyed: calls may come from exit handlers
  return *all;
}
std::atomic<std::size_t> incomplete_requests{0};

// Callbacks of a generalized request.
int query(void*, void* status) {
  if (status == constants().status_ignore) return constants().success;
  set_source_and_tag(status, constants().any_source, constants().any_tag);
  pmpi().Status_set_elements(status, constants().byte, 0);
  return pmpi().Status_set_cancelled(status, 0);
}
int free_nothing(void*) {
  return constants().success;
}
int cancel_nothing(void*, int) {
  return constants().success;
}

/// Keeps the handles that a reduction uses alive in the MPI; pairs with release_handles().
void hold_handles(const CallTemplate& call) {
  if (const Handle op = call.arguments.op_in_use(); op != 0) held_handles().hold(Held::op, op);
  if (const Handle type = call.arguments.type_in_use(); type != 0)
    held_handles().hold(Held::type, type);
}
void release_handles(const CallTemplate& call) {
  const Handle op = call.arguments.op_in_use(), type = call.arguments.type_in_use();
  if (op != 0 && held_handles().release(Held::op, op)) pmpi().Op_free(Slot(op));
  if (type != 0 && held_handles().release(Held::type, type)) pmpi().Type_free(Slot(type));
}

int begin(const std::shared_ptr<PoolRequest>& request) {
  Slot handle;
  const int made =
      pmpi().Grequest_start(reinterpret_cast<void*>(query), reinterpret_cast<void*>(free_nothing),
                            reinterpret_cast<void*>(cancel_nothing), nullptr, handle);
  if (made != constants().success) return made;
  CallTemplate& call = *request->call;
  request->handle = handle.get();
  request->queued.call = call.arguments.call(call.name);
  request->queued.prepared = call.schedule;
  call.arguments.load();
  hold_handles(call);
  {
    Tables& all = tables();
    const std::lock_guard<std::mutex> guard(all.mutex);
    all.requests[request->handle] = request;
    all.incomplete.push_back(request);
    incomplete_requests.store(all.incomplete.size());
    pool_requests.fetch_add(1);
  }
  call.comm->queue->push({request, &request->queued});
  call.comm->queue->advance();  // publish this rank's input at once
  drive(call.comm);
  return constants().success;
}

/// The caller holds the mutex.
FoundRequest find_in(const Tables& all, Handle handle) {
  FoundRequest found;
  if (const auto known = all.requests.find(handle); known != all.requests.end())
    found.request = known->second;
  if (const auto known = all.persistent.find(handle); known != all.persistent.end()) {
    found.persistent = known->second;
    found.request = known->second->active;
  }
  return found;
}

/// Takes the requests that have ended but are not completed in the MPI. Each goes to one thread.
std::vector<std::shared_ptr<PoolRequest>> take_over() {
  std::vector<std::shared_ptr<PoolRequest>> over;
  Tables& all = tables();
  const std::lock_guard<std::mutex> guard(all.mutex);
  std::erase_if(all.incomplete, [&over](const auto& request) {
    const bool is_over = request->queued.over.load(std::memory_order_acquire);
    if (is_over) over.push_back(request);
    return is_over;
  });
  incomplete_requests.store(all.incomplete.size());
  return over;
}

/// Delivers the result. The caller must not hold the mutex: this may call a function of the user.
void take_result(PoolRequest& request) {
  if (!request.queued.error) request.call->arguments.unload();
  release_handles(*request.call);
}

/// The caller holds the mutex.
void complete(PoolRequest& request) {
  pmpi().Grequest_complete(request.handle);
  request.completed = true;
  if (!request.freed) return;
  pool_requests.fetch_sub(1);
  pmpi().Request_free(Slot(request.handle));
}

}  // namespace

int begin_request(const std::shared_ptr<CallTemplate>& call, void* request) {
  auto made = std::make_shared<PoolRequest>();
  made->call = call;
  const int status = begin(made);
  if (status == constants().success) store(request, made->handle);
  return status;
}

int make_persistent(const std::shared_ptr<CallTemplate>& call, void* request) {
  const Constants& mpi = constants();
  Slot handle;
  // A message to itself: with MPI_PROC_NULL, freeing the request in Intel MPI 2021.18 corrupts the
  // next one.
  const int made = pmpi().Send_init(nullptr, 0, mpi.byte, 0, 0, mpi.comm_self, handle);
  if (made != mpi.success) return made;
  auto persistent = std::make_shared<Persistent>();
  persistent->call = call;
  hold_handles(*call);
  Tables& all = tables();
  const std::lock_guard<std::mutex> guard(all.mutex);
  all.persistent[handle.get()] = std::move(persistent);
  pool_requests.fetch_add(1);
  store(request, handle.get());
  return mpi.success;
}

int start(Persistent& persistent) {
  auto made = std::make_shared<PoolRequest>();
  made->call = persistent.call;
  const int status = begin(made);
  if (status != constants().success) return status;
  const std::lock_guard<std::mutex> guard(tables().mutex);
  persistent.active = std::move(made);
  return status;
}

void find_requests(const void* handles, std::size_t n, std::vector<FoundRequest>& found) {
  Tables& all = tables();
  const std::lock_guard<std::mutex> guard(all.mutex);
  for (std::size_t i = 0; i < n; ++i) found.push_back(find_in(all, load_at(handles, i)));
}

FoundRequest find_request(Handle handle) {
  Tables& all = tables();
  const std::lock_guard<std::mutex> guard(all.mutex);
  return find_in(all, handle);
}

void advance_requests() {
  advance_queues();
  if (incomplete_requests.load(std::memory_order_relaxed) == 0) return;
  const auto over = take_over();
  for (const auto& request : over) take_result(*request);
  const std::lock_guard<std::mutex> guard(tables().mutex);
  for (const auto& request : over) complete(*request);
}

void forget(const FoundRequest& found) {
  Tables& all = tables();
  const std::lock_guard<std::mutex> guard(all.mutex);
  // The MPI may have reused the handle for a request of another thread.
  const auto known = all.requests.find(found.request->handle);
  if (known != all.requests.end() && known->second == found.request) all.requests.erase(known);
  if (found.persistent != nullptr) found.persistent->active.reset();
  pool_requests.fetch_sub(1);
}

void free_request(const FoundRequest& found, Handle handle) {
  if (found.request != nullptr) {
    {
      const std::lock_guard<std::mutex> guard(tables().mutex);
      PoolRequest& request = *found.request;
      request.freed = true;
      if (request.completed)
        pmpi().Request_free(Slot(request.handle));
      else
        pool_requests.fetch_add(1);  // later calls that wait or test still have to complete it
    }
    forget(found);
    advance_requests();
  }
  if (found.persistent == nullptr) return;
  release_handles(*found.persistent->call);
  const std::lock_guard<std::mutex> guard(tables().mutex);
  tables().persistent.erase(handle);
  pool_requests.fetch_sub(1);
}

}  // namespace penstock::mpi

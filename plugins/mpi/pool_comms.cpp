#include "pool_comms.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "attachment.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "pmpi.hpp"
#include "pool_agreement.hpp"
#include "pool_requests.hpp"

namespace penstock::mpi {

namespace {

/// The MPI serves this many first calls of a communicator.
constexpr std::uint32_t calls_before = 2;
/// The ranks may switch to the pool only at every fourth call.
constexpr std::uint32_t calls_between = 4;

struct Entry {
  std::uint32_t calls = 0;
  bool decided = false;
  std::shared_ptr<PoolComm> ours;        ///< null and decided: the MPI serves the communicator
  std::unique_ptr<Agreement> agreement;  ///< begun by a nonblocking call
  std::shared_ptr<PoolComm> ready;       ///< agreed upon, but not yet in use
};

std::mutex mutex;  // guards all below
std::unordered_map<Handle, std::unique_ptr<Entry>>& table() {
  static auto* entries = new std::unordered_map<Handle, std::unique_ptr<Entry>>;
  return *entries;  // never destroyed: calls may come from exit handlers
}
/// Communicators that this rank has left. Their memory is freed when all ranks have left, since
/// others may still read it.
std::vector<std::shared_ptr<PoolComm>>& retired() {
  static auto* comms = new std::vector<std::shared_ptr<PoolComm>>;
  return *comms;
}
/// Communicators that the program has freed while calls were outstanding.
std::vector<std::shared_ptr<PoolComm>>& unfinished() {
  static auto* comms = new std::vector<std::shared_ptr<PoolComm>>;
  return *comms;
}
/// Communicators being freed: attribute callbacks of the user may still call collectives on them.
std::vector<Handle>& ending() {
  static auto* handles = new std::vector<Handle>;
  return *handles;
}
bool all_left = false;
/// Incremented with every change of the table, to invalidate the threads' caches.
std::atomic<std::uint64_t> version{1};

struct Remembered {
  Handle handle = 0;
  std::uint64_t version = 0;
  Entry* entry = nullptr;
};
thread_local Remembered last;

void free_left_areas() {
  // attachment() does not attach here: a process that owns memory in the pool is attached.
  Attachment* const at = retired().empty() ? nullptr : attachment();
  if (at == nullptr) return;
  std::erase_if(retired(), [&](const auto& comm) {
    if (!comm->core->all_left()) return false;
    for (const auto& area : comm->areas) at->memory.give_back(area);
    return true;
  });
}

void leave_finished_comms() {
  std::erase_if(unfinished(), [](const std::shared_ptr<PoolComm>& comm) {
    if (comm->queue->outstanding() != 0) return false;
    comm->core->leave();
    if (!comm->areas.empty()) retired().push_back(comm);
    return true;
  });
}

/// Leaves the communicator when its last call has ended: here if none is outstanding, otherwise in
/// QueueThread::remove_idle(), which then sees `ended`. The fences pair up, so that at least one of
/// the two sees the other's store.
void retire(std::shared_ptr<PoolComm> comm) {
  comm->alive = constants().comm_world;  // the MPI's communicator is being freed
  comm->ended.store(true);
  unfinished().push_back(std::move(comm));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  leave_finished_comms();
}

void retire_both(Entry& entry) {
  for (std::shared_ptr<PoolComm>* comm : {&entry.ours, &entry.ready}) {
    if (*comm != nullptr) retire(std::move(*comm));
  }
}

// Attribute callbacks. The handle in the register may have undefined upper bits, so they ignore it.
int keep_from_copy(Handle, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return 0;
}
int forget(Handle, int, void* value, void*) {
  const std::lock_guard<std::mutex> guard(mutex);
  const auto found = std::find_if(table().begin(), table().end(), [value](const auto& known) {
    return known.second.get() == value;
  });
  if (found != table().end()) {
    retire_both(*found->second);
    table().erase(found);
    version.fetch_add(1);
  }
  free_left_areas();
  return 0;
}

/// The key of our attribute; MPI_KEYVAL_INVALID if the MPI gave none.
int keyval() {
  static const int made = [] {
    int key = 0;
    const int status = pmpi().Comm_create_keyval(reinterpret_cast<void*>(keep_from_copy),
                                                 reinterpret_cast<void*>(forget), &key, nullptr);
    return status == constants().success ? key : constants().keyval_invalid;
  }();
  return made;
}

/// Adds an entry that ends with the communicator; null if the MPI cannot set the attribute. Calls
/// the MPI without our mutex, since the MPI may call forget() while it holds its own lock.
Entry* add_entry(Handle comm) {
  auto entry = std::make_unique<Entry>();
  if (keyval() == constants().keyval_invalid ||
      pmpi().Comm_set_attr(comm, keyval(), entry.get()) != constants().success)
    return nullptr;
  const std::lock_guard<std::mutex> guard(mutex);
  version.fetch_add(1);
  return (table()[comm] = std::move(entry)).get();
}

/// Null if there is no entry, or if the communicator is being freed; `ends` tells which.
Entry* find_entry(Handle comm, bool* ends) {
  const std::lock_guard<std::mutex> guard(mutex);
  *ends = all_left || std::find(ending().begin(), ending().end(), comm) != ending().end();
  const auto found = table().find(comm);
  return *ends || found == table().end() ? nullptr : found->second.get();
}

Entry* entry_of(Handle comm) {
  const std::uint64_t now = version.load(std::memory_order_acquire);
  if (last.handle == comm && last.version == now) return last.entry;
  bool ends = false;
  Entry* entry = find_entry(comm, &ends);
  if (ends) return nullptr;
  if (entry == nullptr) entry = add_entry(comm);
  // `now` was read first: if the table changed meanwhile, the next call looks again.
  last = {comm, now, entry};
  return entry;
}

void take_agreement(Entry& entry) {
  entry.ready = entry.agreement->make();
  entry.agreement.reset();
  entry.decided = entry.ready == nullptr;
}

/// Begins or completes the agreement. A call that may not wait may leave it incomplete.
void agree(Entry& entry, Handle comm, MayWait may_wait) {
  const bool begins = entry.agreement == nullptr;
  if (begins) {
    if (!may_be_ours(comm)) {
      entry.decided = true;
      return;
    }
    {
      const std::lock_guard<std::mutex> guard(mutex);
      free_left_areas();
    }
    entry.agreement = std::make_unique<Agreement>(comm);
  }
  if (may_wait == MayWait::yes) {
    begins ? entry.agreement->exchange() : entry.agreement->wait_until_exchanged();
    return take_agreement(entry);
  }
  if (begins) return entry.agreement->begin_to_exchange();
  if (!entry.agreement->is_exchanged()) return;
  take_agreement(entry);
  if (entry.ready == nullptr) return;
  const std::uint32_t next = (entry.calls - 1 + calls_between - 1) / calls_between;
  entry.ready->core->offer_change(next);
}

/// Handles a call of an undecided communicator; null if the call goes to the MPI. All ranks switch
/// to the pool at the same call: one that may wait, or one before which all ranks have offered to
/// switch.
PoolComm* decide(Entry& entry, Handle comm, MayWait may_wait) {
  const std::uint32_t number = entry.calls++;
  if (number < calls_before) return nullptr;
  if (entry.ready == nullptr) agree(entry, comm, may_wait);
  if (entry.ready == nullptr) return nullptr;
  if (may_wait == MayWait::no &&
      (number % calls_between != 0 ||
       !entry.ready->core->all_change("a nonblocking collective", number / calls_between)))
    return nullptr;
  entry.ours = std::move(entry.ready);
  entry.decided = true;
  const std::uint32_t devices = entry.ours->core->shape().devices;
  const std::string plan = base::env_text("PENSTOCK_COLL_PLAN");
  base::log(base::Level::info,
            "collectives of {} ranks go through the pool, slots on {} device{}; tuning table: {}{}",
            entry.ours->ranks(), devices, devices == 1 ? "" : "s", entry.ours->tuning_origin,
            plan.empty() ? "" : fmt::format("; PENSTOCK_COLL_PLAN: {}", plan));
  return entry.ours.get();
}

/// Completes an agreement in progress: its request must end before the MPI's communicator does.
void end_agreement(Handle comm) {
  Entry* entry = nullptr;
  {
    const std::lock_guard<std::mutex> guard(mutex);
    const auto found = table().find(comm);
    if (found != table().end()) entry = found->second.get();
  }
  if (entry == nullptr || entry->agreement == nullptr) return;
  entry->agreement->wait_until_exchanged();
  take_agreement(*entry);
}

}  // namespace

PoolComm* pool_comm(Handle comm, MayWait may_wait) {
  if (comm == constants().comm_null || comm == constants().comm_self) return nullptr;
  Entry* const entry = entry_of(comm);
  if (entry == nullptr) return nullptr;
  if (entry->decided) [[likely]]
    return entry->ours.get();
  return decide(*entry, comm, may_wait);
}

void begin_to_free(Handle comm) {
  end_agreement(comm);
  std::shared_ptr<PoolComm> ours;
  {
    const std::lock_guard<std::mutex> guard(mutex);
    ending().push_back(comm);
    const auto found = table().find(comm);
    if (found != table().end()) ours = found->second->ours;
    version.fetch_add(1);
  }
  if (ours == nullptr) return;
  // Another thread may be waiting for an outstanding call, and probing the MPI on this
  // communicator.
  const std::lock_guard<std::mutex> asking(ours->asking);
  ours->alive = constants().comm_world;
}

void end_to_free(Handle comm) {
  const std::lock_guard<std::mutex> guard(mutex);
  const auto found = std::find(ending().begin(), ending().end(), comm);
  if (found != ending().end()) ending().erase(found);
}

void leave_ended_comms() {
  const std::lock_guard<std::mutex> guard(mutex);
  leave_finished_comms();
}

std::vector<Handle> all_comms() {
  const std::lock_guard<std::mutex> guard(mutex);
  std::vector<Handle> all;
  for (auto& [handle, entry] : table()) all.push_back(handle);
  return all;
}

/// Communicators with outstanding calls.
std::vector<std::shared_ptr<PoolComm>> busy_comms() {
  const std::lock_guard<std::mutex> guard(mutex);
  std::vector<std::shared_ptr<PoolComm>> busy = unfinished();
  for (auto& [handle, entry] : table()) {
    if (entry->ours != nullptr && entry->ours->queue->outstanding() != 0)
      busy.push_back(entry->ours);
  }
  return busy;
}

void leave_all_comms() {
  for (const Handle comm : all_comms()) end_agreement(comm);
  for (const auto& comm : busy_comms()) comm->queue->drain("MPI_Finalize");
  advance_requests();
  std::vector<std::shared_ptr<PoolComm>> owned;
  {
    const std::lock_guard<std::mutex> guard(mutex);
    all_left = true;
    for (auto& [handle, entry] : table()) retire_both(*entry);
    version.fetch_add(1);
    leave_finished_comms();
    owned.swap(retired());
  }
  // Without the mutex: the MPI may end the process during a wait, and exit handlers lock it again.
  Attachment* const at = owned.empty() ? nullptr : attachment();
  for (const auto& comm : owned) {
    if (at == nullptr) break;
    const bool left = comm->core->await_all_left("MPI_Finalize").has_value();
    for (const auto& area : comm->areas)
      left ? at->memory.give_back(area) : at->memory.defer_reclaim(area);
  }
}

void drop_all_comms() {
  const std::lock_guard<std::mutex> guard(mutex);
  for (auto& [handle, entry] : table()) {
    for (auto* comm : {&entry->ours, &entry->ready}) {
      if (*comm != nullptr && !(*comm)->areas.empty()) retired().push_back(std::move(*comm));
      comm->reset();
    }
    if (entry->agreement != nullptr) entry->agreement->drop();
  }
  Attachment* const at = retired().empty() ? nullptr : attachment();
  for (const auto& comm : retired()) {
    if (at == nullptr) break;
    for (const auto& area : comm->areas) at->memory.defer_reclaim(area);
  }
  retired().clear();
}

}  // namespace penstock::mpi

#include "pool_comms.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "attachment.hpp"
#include "base/env.hpp"
#include "base/log.hpp"
#include "coll/planning.hpp"
#include "coll/tuning_store.hpp"
#include "mpi_progress.hpp"
#include "pmpi.hpp"

namespace penstock::mpi {

namespace {

constexpr std::uint64_t none = ~std::uint64_t{0};
/// Calls of a communicator that the MPI serves first.
constexpr std::uint32_t calls_before = 2;

struct Entry {
  std::uint32_t calls = 0;
  bool decided = false;
  std::unique_ptr<PoolComm> ours;  ///< null once decided: the MPI's
};

std::mutex mutex;  // of all below
std::unordered_map<Handle, std::unique_ptr<Entry>>& table() {
  static auto* entries = new std::unordered_map<Handle, std::unique_ptr<Entry>>;
  return *entries;  // never destroyed: calls may come from exit handlers
}
/// Their ranks may still read; the space is given back when all have left.
std::vector<std::unique_ptr<PoolComm>>& retired() {
  static auto* comms = new std::vector<std::unique_ptr<PoolComm>>;
  return *comms;
}
/// Being freed at this moment: callbacks of the user's attributes may still call collectives.
std::vector<Handle>& ending() {
  static auto* handles = new std::vector<Handle>;
  return *handles;
}
bool all_left = false;
/// Changes with the table, and so invalidates what threads have cached.
std::atomic<std::uint64_t> version{1};

struct Remembered {
  Handle handle = 0;
  std::uint64_t version = 0;
  Entry* entry = nullptr;
};
thread_local Remembered last;

void give_back_those_left() {
  // Attaches nobody: who owns space is attached.
  Attachment* const at = retired().empty() ? nullptr : attachment();
  if (at == nullptr) return;
  std::erase_if(retired(), [&](const auto& comm) {
    if (!comm->core->all_left()) return false;
    at->memory.give_back(*comm->area);
    return true;
  });
}

void retire(std::unique_ptr<PoolComm> comm) {
  comm->probed = constants().comm_world;  // its own is being freed
  comm->core->leave();
  if (comm->area) retired().push_back(std::move(comm));
}

// The MPI calls these with a handle of its width in a register, which we do not read.
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
    if (found->second->ours != nullptr) retire(std::move(found->second->ours));
    table().erase(found);
    version.fetch_add(1);
  }
  give_back_those_left();
  return 0;
}

/// Of the attribute; MPI_KEYVAL_INVALID where the MPI gives none.
int keyval() {
  static const int made = [] {
    int key = 0;
    const int status = pmpi().Comm_create_keyval(reinterpret_cast<void*>(keep_from_copy),
                                                 reinterpret_cast<void*>(forget), &key, nullptr);
    return status == constants().success ? key : constants().keyval_invalid;
  }();
  return made;
}

/// An entry that ends with the communicator; null where the MPI gives no attribute. The MPI is
/// called without our mutex, since it may call forget() with a lock of its own held.
Entry* add_entry(Handle comm) {
  auto entry = std::make_unique<Entry>();
  if (keyval() == constants().keyval_invalid ||
      pmpi().Comm_set_attr(comm, keyval(), entry.get()) != constants().success)
    return nullptr;
  const std::lock_guard<std::mutex> guard(mutex);
  version.fetch_add(1);
  return (table()[comm] = std::move(entry)).get();
}

/// Null with `ends`: the communicator is being freed.
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
  // Should another communicator have come or gone meanwhile, the next call looks again.
  last = {comm, now, entry};
  return entry;
}

/// A rank's contribution, exchanged in one MPI_Allgather.
struct Offer {
  std::uint64_t pool_id = 0;  ///< 0: this rank has no pool
  std::uint64_t token = 0;
  std::uint64_t area = none;  ///< of rank 0
  std::uint64_t slot_bytes = 0, eager_bytes = 0;
  std::uint64_t node = 0;
  std::uint64_t tuning_bytes = 0;  ///< rank 0: of the table that it broadcasts; 0: the built-in one
};
static_assert(sizeof(Offer) == 56);

class Agreement {
 public:
  explicit Agreement(Handle comm) : at_(attachment()), comm_(comm) {
    pmpi().Comm_size(comm, &size_);
    pmpi().Comm_rank(comm, &rank_);
  }

  /// Null: the MPI serves the communicator. The same on all ranks.
  std::unique_ptr<PoolComm> make() {
    exchange();
    if (acceptable()) return open();
    if (made_) at_->memory.give_back(*made_);
    return nullptr;
  }

 private:
  void exchange() {
    Offer own;
    if (at_ != nullptr) {
      const pool::Pool& pool = at_->pool();
      own.pool_id = pool.info().id;
      own.token = pool.token();
      own.node = pool.node();
      if (rank_ == 0) make_area(own);
    }
    offers_.resize(static_cast<std::size_t>(size_));
    pmpi().Allgather(&own, sizeof own, constants().byte, offers_.data(), sizeof own,
                     constants().byte, comm_);
  }
  void make_area(Offer& offer) {
    const auto ranks = static_cast<std::uint32_t>(size_);
    const auto stats = at_->session->arena->stats();
    const coll::Shape shape = coll::shape_for(ranks, stats.bytes_total);
    // The rest is for messages, windows and other communicators.
    if (stats.bytes_used + coll::Communicator::bytes(ranks, shape) > stats.bytes_total / 2) return;
    auto made = at_->memory.make(coll::Communicator::bytes(ranks, shape));
    if (!made) return;
    made_ = *made;
    const auto& memory = at_->pool().memory();
    const std::vector<std::byte> zeros(coll::Communicator::zeroed_bytes(ranks, shape));
    memory.publish_bulk(made_->data, zeros.data(), zeros.size());
    memory.full_fence();
    offer.area = made_->offset;
    offer.slot_bytes = shape.slot_bytes;
    offer.eager_bytes = shape.eager_bytes;
    if (const auto tuning = coll::tuning_in_force(*at_->session->arena)) {
      table_ = coll::encode(*tuning);
      offer.tuning_bytes = table_.size();
    }
  }
  /// All ranks have that of rank 0, also where the pool gets another one at this moment.
  std::shared_ptr<const coll::Tuning> receive_tuning() {
    const std::uint64_t bytes = offers_.front().tuning_bytes;
    if (bytes == 0 || bytes > coll::max_tuning_bytes) return nullptr;
    table_.resize(bytes);
    pmpi().Bcast(table_.data(), static_cast<int>(bytes), constants().byte, 0, comm_);
    auto tuning = coll::decode(table_);
    if (tuning) return std::make_shared<coll::Tuning>(*std::move(tuning));
    base::log(base::Level::warn, "rank 0's tuning table of collectives: {}; the built-in is used",
              tuning.error().message);
    return nullptr;
  }
  bool acceptable() const {
    const Offer& first = offers_.front();
    bool apart = false;
    for (const Offer& offer : offers_) {
      if (offer.pool_id == 0 || offer.pool_id != first.pool_id) return false;
      apart = apart || offer.node != first.node;
    }
    return apart && first.area != none;
  }
  std::unique_ptr<PoolComm> open() {
    const Offer& first = offers_.front();
    coll::Options options{.area = first.area, .self = static_cast<std::uint32_t>(rank_)};
    for (const Offer& offer : offers_) options.tokens.push_back(offer.token);
    options.check = base::env_flag("PENSTOCK_COLL_CHECK");
    options.shape.slot_bytes = first.slot_bytes;
    options.shape.eager_bytes = first.eager_bytes;
    options.tuning = receive_tuning();
    const std::string origin = options.tuning ? options.tuning->origin : "built in";
    auto comm = std::make_unique<PoolComm>();
    comm->handle = comm->probed = comm_;
    options.idle = [progress = MpiProgress(comm->probed, at_->pool(), options.tokens)]() mutable {
      progress.look();
    };
    auto opened = coll::Communicator::open(at_->pool(), std::move(options));
    if (!opened) {
      base::log(base::Level::error, "{}", opened.error().message);
      return nullptr;
    }
    base::log(base::Level::info, "collectives of {} ranks go through the pool; tuning table: {}",
              size_, origin);
    comm->core = std::move(*opened);
    comm->area = made_;
    return comm;
  }

  Attachment* at_;
  Handle comm_;
  int size_ = 0, rank_ = 0;
  std::vector<Offer> offers_;
  std::optional<arena::Object> made_;
  std::vector<std::byte> table_;  ///< of plans, rank 0's
};

/// Two ranks or more, in a program of MPI_Init; the same on all ranks.
bool may_be_ours(Handle comm) {
  int inter = 0, size = 0, ended = 0;
  if (pmpi().Finalized(&ended) != constants().success || ended != 0) return false;
  int begun = 0;
  pmpi().Initialized(&begun);
  if (begun == 0 || !pool_is_named()) return false;
  if (pmpi().Comm_test_inter(comm, &inter) != constants().success || inter != 0) return false;
  return pmpi().Comm_size(comm, &size) == constants().success && size > 1;
}

}  // namespace

PoolComm* pool_comm(Handle comm) {
  if (comm == constants().comm_null || comm == constants().comm_self) return nullptr;
  Entry* const entry = entry_of(comm);
  if (entry == nullptr) return nullptr;
  if (entry->decided) [[likely]]
    return entry->ours.get();
  if (entry->calls++ < calls_before) return nullptr;
  entry->decided = true;
  if (!may_be_ours(comm)) return nullptr;
  {
    const std::lock_guard<std::mutex> guard(mutex);
    give_back_those_left();
  }
  entry->ours = Agreement(comm).make();
  return entry->ours.get();
}

void begin_to_free(Handle comm) {
  const std::lock_guard<std::mutex> guard(mutex);
  ending().push_back(comm);
  version.fetch_add(1);
}

void end_to_free(Handle comm) {
  const std::lock_guard<std::mutex> guard(mutex);
  const auto found = std::find(ending().begin(), ending().end(), comm);
  if (found != ending().end()) ending().erase(found);
}

void leave_all_comms() {
  std::vector<std::unique_ptr<PoolComm>> owned;
  {
    const std::lock_guard<std::mutex> guard(mutex);
    all_left = true;
    for (auto& [handle, entry] : table()) {
      if (entry->ours != nullptr) retire(std::move(entry->ours));
    }
    version.fetch_add(1);
    owned.swap(retired());
  }
  // Not with the mutex: the MPI may end the process in a wait, and exit handlers come here again.
  Attachment* const at = owned.empty() ? nullptr : attachment();
  for (const auto& comm : owned) {
    if (at == nullptr) break;
    if (comm->core->await_all_left("MPI_Finalize"))
      at->memory.give_back(*comm->area);
    else
      at->memory.leave_to_burial(*comm->area);
  }
}

void drop_all_comms() {
  const std::lock_guard<std::mutex> guard(mutex);
  for (auto& [handle, entry] : table()) {
    if (entry->ours != nullptr && entry->ours->area) retired().push_back(std::move(entry->ours));
    entry->ours.reset();
  }
  Attachment* const at = retired().empty() ? nullptr : attachment();
  for (const auto& comm : retired()) {
    if (at != nullptr) at->memory.leave_to_burial(*comm->area);
  }
  retired().clear();
}

}  // namespace penstock::mpi

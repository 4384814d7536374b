#include "creation.hpp"

#include <climits>
#include <cstring>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "coarrays.hpp"
#include "errors.hpp"
#include "info.hpp"
#include "mpi_progress.hpp"
#include "pmpi.hpp"
#include "progress_thread.hpp"
#include "queue_thread.hpp"
#include "taking_part.hpp"
#include "window/process_bell.hpp"

namespace penstock::mpi {

namespace {

constexpr std::uint64_t none = ~std::uint64_t{0};

constexpr window::CallNames mpi_names{.fence = "MPI_Win_fence",
                                      .post = "MPI_Win_post",
                                      .start = "MPI_Win_start",
                                      .complete = "MPI_Win_complete",
                                      .wait = "MPI_Win_wait",
                                      .test = "MPI_Win_test",
                                      .lock = "MPI_Win_lock",
                                      .unlock = "MPI_Win_unlock",
                                      .lock_all = "MPI_Win_lock_all",
                                      .unlock_all = "MPI_Win_unlock_all",
                                      .flush = "MPI_Win_flush",
                                      .flush_all = "MPI_Win_flush_all",
                                      .leave = "MPI_Win_free"};

/// A rank's contribution, exchanged in one MPI_Allgather.
struct Offer {
  std::uint64_t pool_id = 0;  ///< 0: this rank has no pool
  std::uint64_t token = 0;
  std::uint64_t offset = none;  ///< offset of its segment; none: not in the pool
  std::uint64_t bytes = 0;
  std::uint64_t words = none;  ///< offset of this rank's words (window::Member)
  std::uint64_t bell = 0;      ///< PoolMemory::bell
  std::int64_t unit = 1;
  std::uint32_t node = 0;
  std::uint8_t emulated = 0, full = 0, unified = 0, unused = 0;
};
static_assert(sizeof(Offer) == 64);

/// One rank's part in making a window. On failure it releases the memory that it has taken.
class Making {
 public:
  Making(Attachment* at, const Wanted& wanted) : at_(at), wanted_(wanted) {
    pmpi().Comm_size(wanted.comm, &size_);
    pmpi().Comm_rank(wanted.comm, &rank_);
  }
  ~Making() {
    for (const auto& object : objects_) at_->memory.give_back(object);
    for (const auto& piece : words_) at_->words.give_back(piece);
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

  bool alone() const { return size_ < 2; }
  void exchange_offers();
  bool acceptable() const;
  /// For shared windows: rank 0 makes one block that holds all segments.
  bool place_shared();
  Result<std::unique_ptr<PoolWindow>> open();
  const std::vector<Offer>& offers() const { return offers_; }

 private:
  Offer own_offer();
  void offer_segment(Offer& offer);
  std::optional<std::uint64_t> take(std::uint64_t bytes, Offer& offer);
  void offer_words(Offer& offer);
  bool found_full() const;
  std::function<void(std::uint32_t target)> bell_ringer() const;

  Attachment* at_;
  const Wanted& wanted_;
  int size_ = 0, rank_ = 0;
  std::vector<Offer> offers_;
  std::vector<arena::Object> objects_;
  std::vector<WordMemory::Piece> words_;
};

std::optional<std::uint64_t> Making::take(std::uint64_t bytes, Offer& offer) {
  auto made = at_->memory.make(bytes);
  if (!made) {
    offer.full = 1;
    return std::nullopt;
  }
  objects_.push_back(*made);
  return made->offset;
}

void Making::offer_segment(Offer& offer) {
  switch (wanted_.flavor) {
    case Flavor::shared:
      break;
    case Flavor::allocate:
      offer.offset = offer.bytes == 0 ? 0 : take(offer.bytes, offer).value_or(none);
      break;
    case Flavor::create: {
      if (offer.bytes == 0) {
        offer.offset = 0;
        break;
      }
      // A segment must not share lines with other data: writing back a shared line would overwrite
      // peers' puts.
      const auto block = at_->memory.block_of(wanted_.base, offer.bytes);
      const auto at = reinterpret_cast<std::uintptr_t>(wanted_.base);
      if (!block || at % coherence::line_bytes != 0) break;
      const bool ends_block =
          static_cast<std::byte*>(wanted_.base) + offer.bytes + coherence::line_bytes >
          block->data + block->bytes;
      if (offer.bytes % coherence::line_bytes == 0 || ends_block)
        offer.offset = at_->pool().offset_of(wanted_.base).value_or(none);
      break;
    }
  }
}

Offer Making::own_offer() {
  Offer offer;
  offer.bytes = static_cast<std::uint64_t>(wanted_.size);
  offer.unit = wanted_.unit;
  if (at_ == nullptr || wanted_.size < 0 || wanted_.unit < 1) return offer;
  pool::Pool& pool = at_->pool();
  offer.pool_id = pool.info().id;
  offer.token = pool.token();
  offer.node = pool.node();
  offer.bell = at_->memory.bell();
  offer.emulated = at_->session->launch.emulated_node ? 1 : 0;
  // Without coherent caches the pool cannot offer the unified model: if a peer and the owner write
  // to the same line, one of the writes is lost.
  if (wanted_.model == Model::unified && pool.memory().loads_may_be_stale()) {
    offer.unified = 1;
    return offer;
  }
  offer_segment(offer);
  offer_words(offer);
  return offer;
}

/// Clears the words before their offset reaches the other ranks.
void Making::offer_words(Offer& offer) {
  const auto piece = at_->words.take(window::words_bytes());
  if (!piece) {
    offer.full = 1;
    return;
  }
  words_.push_back(*piece);
  window::clear_words(at_->pool().memory(), at_->pool().base() + piece->offset);
  offer.words = piece->offset;
}

void Making::exchange_offers() {
  const Offer own = own_offer();
  offers_.resize(static_cast<std::size_t>(size_));
  pmpi().Allgather(&own, sizeof own, constants().byte, offers_.data(), sizeof own, constants().byte,
                   wanted_.comm);
}

bool Making::found_full() const {
  for (const Offer& offer : offers_) {
    if (offer.full != 0) return true;
  }
  return false;
}

/// True if the window can lie in the pool. The same on all ranks, since they check the same offers.
bool Making::acceptable() const {
  bool in_pool = true, apart = false;
  std::uint64_t bytes = 0;
  for (const Offer& offer : offers_) {
    if (offer.pool_id == 0 || offer.pool_id != offers_.front().pool_id) return false;
    if (offer.unified != 0) return false;
    // Within one host the MPI's own windows are in coherent memory and serve better.
    apart = apart || offer.emulated != 0 || offer.node != offers_.front().node;
    in_pool = in_pool && offer.words != none &&
              (offer.offset != none || wanted_.flavor == Flavor::shared);
    bytes += offer.bytes;
  }
  if (!apart || bytes == 0) return false;
  if (in_pool) return true;
  static std::atomic<bool> said{false};
  if (found_full() && rank_ == 0 && !said.exchange(true))
    base::log(base::Level::warn, "pool {} is full: windows lie in the MPI's own memory; {}",
              at_->pool().info().spec, pool::more_space_text(at_->pool().info(), bytes));
  return false;
}

bool Making::place_shared() {
  const bool apart = info_says_true(wanted_.info, "alloc_shared_noncontig");
  std::uint64_t bytes = 0;
  for (Offer& offer : offers_) {
    offer.offset = bytes;
    bytes += offer.bytes;
    if (apart) bytes = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  }
  std::uint64_t block = none;
  Offer full;
  if (rank_ == 0) block = take(bytes, full).value_or(none);
  pmpi().Bcast(&block, sizeof block, constants().byte, 0, wanted_.comm);
  if (block == none) return false;
  for (Offer& offer : offers_) offer.offset += block;
  return true;
}

/// Used only by the thread in MPI_Finalize.
std::vector<PoolWindow*> windows_being_left;

/// Serves the other windows that this rank is leaving: while it waits in `waits_in`, peers may wait
/// in another window for a message that this rank forwards.
void pass_on_in_others(const PoolWindow& waits_in) {
  for (PoolWindow* const window : windows_being_left) {
    if (window == &waits_in || (window->guarded && !window->mutex.try_lock())) continue;
    window->core->serve();
    if (window->guarded) window->mutex.unlock();
  }
}

/// Makes a communicator of this rank alone; not collective. Returns a null handle on failure.
Handle comm_of_self(Handle comm, int rank) {
  constexpr int tag = 0;
  Slot all, self, made(constants().comm_null);
  pmpi().Comm_group(comm, all);
  pmpi().Group_incl(all.get(), 1, &rank, self);
  pmpi().Comm_create_group(comm, self.get(), tag, made);
  pmpi().Group_free(self);
  pmpi().Group_free(all);
  return made.get();
}

std::function<void(std::uint32_t target)> Making::bell_ringer() const {
  std::vector<std::uint64_t> bells;
  for (const Offer& offer : offers_) bells.push_back(offer.bell);
  return [bells = std::move(bells), &pool = at_->pool()](std::uint32_t target) {
    window::ProcessBell::ring(pool, bells[target]);
  };
}

Result<std::unique_ptr<PoolWindow>> Making::open() {
  auto made = std::make_unique<PoolWindow>();
  PoolWindow* const window = made.get();
  const bool world = has_world();
  window->self = world ? constants().comm_world : comm_of_self(wanted_.comm, rank_);
  window->owns_self = !world;
  window::Options options;
  options.self = static_cast<std::uint32_t>(rank_);
  options.is_shared = wanted_.flavor == Flavor::shared;
  for (const Offer& offer : offers_) {
    options.members.push_back({offer.token, offer.offset, offer.bytes, offer.words, offer.node});
    window->units.push_back(offer.unit);
  }
  std::vector<std::uint64_t> tokens;
  for (const Offer& offer : offers_) tokens.push_back(offer.token);
  options.idle = [window, progress = MpiProgress(window->self, at_->pool(), tokens)]() mutable {
    window->let_others_in();
    advance_queues();
    progress.look();
    pass_on_in_others(*window);
  };
  options.more = [window, at = at_](std::uint64_t bytes) -> Result<std::uint64_t> {
    window->words.push_back(PENSTOCK_TRY(at->words.take(bytes)));
    return window->words.back().offset;
  };
  options.names = mpi_names;
  options.on_request = bell_ringer();
  window->core = PENSTOCK_TRY(window::Window::open(at_->pool(), std::move(options)));
  int level = 0;
  // Each MPI session has a thread level of its own, which cannot be queried here.
  if (world) pmpi().Query_thread(&level);
  if (!world) level = constants().thread_serialized;
  // MPI_THREAD_SERIALIZED counts as threaded: one thread may end an epoch that another began.
  window->has_threads = level >= constants().thread_serialized;
  window->guarded = window->has_threads || window->core->may_get_requests();
  window->base =
      wanted_.flavor == Flavor::create ? wanted_.base : window->core->segment(options.self);
  window->size = wanted_.size;
  window->unit = static_cast<int>(wanted_.unit);
  const bool coherent = !at_->pool().memory().loads_may_be_stale();
  window->model = coherent ? constants().win_unified : constants().win_separate;
  window->with_collectives =
      wanted_.model == Model::collective && !coherent && wanted_.flavor != Flavor::shared;
  window->with_atomics = window->with_collectives;
  window->objects = std::move(objects_);
  objects_.clear();
  window->words.insert(window->words.end(), words_.begin(), words_.end());
  words_.clear();
  return made;
}

int flavor_constant(Flavor flavor) {
  const Constants& mpi = constants();
  if (flavor == Flavor::create) return mpi.win_flavor_create;
  return flavor == Flavor::allocate ? mpi.win_flavor_allocate : mpi.win_flavor_shared;
}

/// Makes the MPI's window whose handle stands for ours.
int make_handle(const Wanted& wanted, PoolWindow& window) {
  Slot handle;
  int status;
  if (wanted.unit > INT_MAX && pmpi().Win_create_c != nullptr) {
    status = pmpi().Win_create_c(window.base, wanted.size, wanted.unit, wanted.info, wanted.comm,
                                 handle);
  } else {
    status =
        pmpi().Win_create(window.base, wanted.size, window.unit, wanted.info, wanted.comm, handle);
  }
  if (status != constants().success) return status;
  window.handle = handle.get();
  Slot group;
  pmpi().Win_get_group(window.handle, group);
  window.group = group.get();
  return status;
}

}  // namespace

Model model_wanted(Handle info) {
  const auto by_info = info_value(info, "penstock_window_model");
  if (!by_info && !base::env_is_set("PENSTOCK_WINDOW_MODEL") && has_coarrays())
    return Model::unified;
  const std::string text = by_info.value_or(base::env_text("PENSTOCK_WINDOW_MODEL"));
  if (text == "separate") return Model::separate;
  if (text == "unified") return Model::unified;
  static std::atomic<bool> said{false};
  if (text != "collective" && !said.exchange(true))
    base::log(base::Level::warn,
              "a window's memory model is '{}': separate, collective or unified is needed, and "
              "collective is taken",
              text);
  return Model::collective;
}

std::optional<int> make_window(const Wanted& wanted, void** base, void* win) {
  int inter = 0;
  if (pmpi().Comm_test_inter(wanted.comm, &inter) != constants().success || inter != 0)
    return std::nullopt;
  Making making(attachment(), wanted);
  if (making.alone() || !all_take_part(wanted.comm, Shared::windows)) return std::nullopt;
  making.exchange_offers();
  if (!making.acceptable()) return std::nullopt;
  if (wanted.flavor == Flavor::shared && !making.place_shared()) return std::nullopt;

  auto made = making.open();
  if (!made) return raise_on_comm(wanted.comm, made.error());
  PoolWindow& window = **made;
  window.flavor = flavor_constant(wanted.flavor);
  if (const int status = make_handle(wanted, window); status != constants().success) return status;
  {
    const Entered entered(window);
    // No rank may put before all segments are ready.
    const auto all = window.core->fence(window::no_precede | window::no_succeed);
    if (!all) {
      defer_reclaim(window, attachment()->memory);
      return raise(window.handle, all.error());
    }
  }
  base::log(base::Level::info, "a window of {} ranks lies in the pool: {} bytes here",
            making.offers().size(), window.size);
  if (base != nullptr) *base = window.base;
  store(win, window.handle);
  if (window.core->may_get_requests()) serve(window);
  add_window(std::move(*made));
  return constants().success;
}

namespace {

/// Leaves the window, together with the other ranks; serves peers meanwhile.
Result<void> leave(PoolWindow& window) {
  if (window.core->may_get_requests()) end_progress(window);
  const Entered entered(window);
  return window.core->leave();
}

void give_back_objects(const PoolWindow& window) {
  if (Attachment* at = attachment()) {
    for (const auto& object : window.objects) at->memory.give_back(object);
  }
}

}  // namespace

int free_window(PoolWindow& window, void* win) {
  // In an exit handler of a forked child: the window belongs to the parent.
  if (const Attachment* at = attachment(); at != nullptr && !at->pool().attached_here())
    return constants().success;
  if (auto left = leave(window); !left) {
    if (window.core->may_get_requests()) serve(window);  // living ranks may still reach this one
    return raise(window.handle, left.error());
  }
  const auto owned = take_window(window.handle);
  Slot group(owned->group);
  pmpi().Group_free(group);
  Slot self(owned->self);
  if (owned->owns_self) pmpi().Comm_free(self);
  const int status = pmpi().Win_free(win);  // a barrier: all ranks have left
  owned->core.reset();
  give_back_objects(*owned);
  if (Attachment* at = attachment(); at != nullptr && status == constants().success) {
    for (const auto& piece : owned->words) at->words.give_back(piece);
  }
  return status;
}

/// The order of windows differs between ranks. So each rank begins to leave all windows before it
/// waits in one, and serves the rest meanwhile. The words stay until the job ends: peers may still
/// read them.
void leave_all_windows() {
  const auto windows = take_all_windows();
  for (const auto& window : windows) {
    const Entered entered(*window);
    window->core->begin_leave();
  }
  for (const auto& window : windows) windows_being_left.push_back(window.get());
  for (const auto& window : windows) {
    const auto left = leave(*window);
    std::erase(windows_being_left, window.get());
    window->core.reset();
    if (left) give_back_objects(*window);
    // A rank of this window has died. Peers that do not know that yet may still put here.
    if (Attachment* const at = attachment(); !left && at != nullptr)
      defer_reclaim(*window, at->memory);
  }
}

}  // namespace penstock::mpi

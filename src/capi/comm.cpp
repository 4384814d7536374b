#include "capi/comm.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::capi {

namespace {

constexpr std::uint64_t none = ~std::uint64_t{0};

/// What a rank tells the others.
struct Offer {
  std::uint64_t pool_id = 0;
  std::uint64_t token = 0;
  std::uint64_t area = none;  ///< of rank 0; none: it could not be made
  std::uint64_t slot_bytes = 0;
  std::uint64_t check = 0;
};
static_assert(sizeof(Offer) == 40);

/// Smaller for many ranks: all communicators together leave room for other things.
coll::Shape shape_for(const penstock_comm_options_t& options, std::uint64_t pool_bytes) {
  constexpr std::uint64_t most = 256 << 10, least = 16 << 10, page = 4096;
  coll::Shape shape;
  const std::uint64_t each = pool_bytes / 32 / (std::uint64_t{options.ranks} * 2 * shape.slots);
  shape.slot_bytes =
      options.slot_bytes != 0 ? options.slot_bytes : std::clamp(each / page * page, least, most);
  return shape;
}

Result<arena::Object> make_area(Attachment& at, const penstock_comm_options_t& options,
                                const coll::Shape& shape) {
  static std::atomic<std::uint64_t> made{0};
  arena::CreateOptions create;
  create.lifetime = arena::Lifetime::process;
  create.alignment = 4096;
  create.zero = false;
  auto area =
      PENSTOCK_TRY(at.arena->create(fmt::format("penstock.comm.{:x}.{}", at.pool->token(), ++made),
                                    coll::Communicator::bytes(options.ranks, shape), create));
  const auto& memory = at.pool->memory();
  const std::vector<std::byte> zeros(coll::Communicator::zeroed_bytes(options.ranks, shape));
  memory.publish_bulk(area.data, zeros.data(), zeros.size());
  memory.full_fence();
  return area;
}

Result<void> check_offers(const std::vector<Offer>& offers, std::uint32_t self, const char* noun) {
  for (std::uint32_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].pool_id != offers[self].pool_id)
      return fail(ErrorCode::mismatch,
                  "{}: rank {} has attached another pool than rank {}: PENSTOCK_POOL must name "
                  "the same one on all hosts",
                  noun, rank, self);
    if (offers[rank].check != offers[self].check)
      return fail(ErrorCode::mismatch,
                  "{}: rank {} compares calls and rank {} does not, or the other way round", noun,
                  rank, self);
  }
  if (offers.front().area == none)
    return fail(ErrorCode::no_space,
                "{}: rank 0 found no room for it in the pool; its own message says how much is "
                "needed",
                noun);
  return {};
}

}  // namespace

Result<std::unique_ptr<penstock_comm>> open_comm(std::shared_ptr<Attachment> attachment,
                                                 const penstock_comm_options_t& options) {
  const bool check = options.check != 0 || base::env_flag("PENSTOCK_COLL_CHECK");
  const char* const noun = options.name != nullptr ? options.name : "communicator";
  if (options.exchange == nullptr)
    return fail(ErrorCode::invalid_argument, "{}: no exchange function", noun);
  if (options.rank >= options.ranks)
    return fail(ErrorCode::invalid_argument, "{}: rank {} of {} ranks", noun, options.rank,
                options.ranks);
  ClosedComms::of(*attachment).give_back();
  auto comm = std::make_unique<penstock_comm>();
  comm->attachment = std::move(attachment);
  pool::Pool& pool = *comm->attachment->pool;
  coll::Shape shape = shape_for(options, comm->attachment->arena->stats().bytes_total);
  Offer own{.pool_id = pool.info().id,
            .token = pool.token(),
            .slot_bytes = shape.slot_bytes,
            .check = static_cast<std::uint64_t>(check)};
  Result<void> made;
  if (options.rank == 0) {
    auto area = make_area(*comm->attachment, options, shape);
    if (area) {
      comm->area = std::move(*area);
      own.area = comm->area->offset;
    } else {
      made = unexpected(area.error());
    }
  }
  // Also where there is no room: the others wait for what this rank has to tell.
  std::vector<Offer> offers(options.ranks);
  const int exchanged = options.exchange(options.user, &own, offers.data(), sizeof own);
  const auto give_up = [&](const Error& error) {
    // Nobody uses it: no rank has got its place, or all of them fail here alike.
    if (comm->area) (void)comm->attachment->arena->destroy(*comm->area);
    return unexpected(error);
  };
  if (!made) return give_up(made.error());
  if (exchanged != 0)
    return give_up({ErrorCode::unavailable,
                    fmt::format("{}: the exchange function failed ({})", noun, exchanged)});
  if (auto fits = check_offers(offers, options.rank, noun); !fits) return give_up(fits.error());
  shape.slot_bytes = offers.front().slot_bytes;
  coll::Options core{.area = offers.front().area,
                     .self = options.rank,
                     .shape = shape,
                     .noun = noun,
                     .check = check};
  for (const Offer& offer : offers) core.tokens.push_back(offer.token);
  comm->tokens = core.tokens;
  auto opened = coll::Communicator::open(pool, std::move(core));
  if (!opened) return give_up(opened.error());
  comm->core = std::move(*opened);
  return comm;
}

void close_comm(std::unique_ptr<penstock_comm> comm) {
  Attachment& at = *comm->attachment;
  if (!at.pool->attached_here()) return;  // a forked child: the parent's
  comm->core->leave();
  ClosedComms& closed = ClosedComms::of(at);
  if (comm->area) closed.add(std::move(comm->core), *comm->area);
  closed.give_back();
}

ClosedComms& ClosedComms::of(Attachment& at) {
  const std::lock_guard<std::mutex> guard(at.mutex);
  if (at.closed == nullptr) at.closed = std::make_shared<ClosedComms>(at);
  return *at.closed;
}

void ClosedComms::add(std::unique_ptr<coll::Communicator> core, const arena::Object& area) {
  const std::lock_guard<std::mutex> guard(mutex_);
  closed_.push_back({std::move(core), area});
}

void ClosedComms::give_back() {
  const std::lock_guard<std::mutex> guard(mutex_);
  std::erase_if(closed_, [&](const Closed& comm) {
    if (!comm.core->all_left()) return false;
    (void)at_.arena->destroy(comm.area);
    return true;
  });
}

ClosedComms::~ClosedComms() {
  constexpr int looks = 200;
  constexpr std::chrono::milliseconds between{5};
  if (!at_.pool->attached_here()) return;
  for (int look = 0; look < looks && !closed_.empty(); ++look) {
    give_back();
    if (!closed_.empty()) std::this_thread::sleep_for(between);
  }
  for (const Closed& comm : closed_) at_.arena->leave_to_burial(comm.area);
}

}  // namespace penstock::capi

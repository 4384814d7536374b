#include "capi/comm.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "coll/agreement.hpp"
#include "coll/ending.hpp"
#include "gpu/flagged_launch.hpp"
#include "offload/switch_port.hpp"
#include "pool/reclaim.hpp"

namespace penstock::capi {

namespace {

/// A name that is unique even if the process makes many communicators.
std::string new_name(const pool::Pool& pool) {
  static std::atomic<std::uint64_t> made{0};
  return fmt::format("penstock.comm.{:x}.{}", pool.token(), ++made);
}

std::vector<gpu::Communicator::Area> places_of(const coll::Options& core, pool::Pool& pool,
                                               std::uint32_t ranks) {
  std::vector<gpu::Communicator::Area> places{
      {pool.base() + core.area, coll::Communicator::bytes(ranks, core.shape)}};
  const auto areas = coll::Communicator::slot_areas(ranks, core.shape);
  for (std::size_t i = 0; i < areas.size(); ++i)
    places.push_back({pool.base() + core.slot_areas[i], areas[i].bytes});
  if (core.in_switch)
    places.push_back({pool.base() + core.in_switch->offset, core.in_switch->bytes});
  return places;
}

/// GPUs get long chunks: a stream operation costs as much as copying a large part of a megabyte.
/// Without GPUs the pool's default size applies (0).
std::uint64_t slot_bytes_for(const Attachment& at, const penstock_comm_options_t& options) {
  constexpr std::uint64_t most = 8 << 20, least = 64 << 10, page = 4096, slots = 8;
  if (options.slot_bytes != 0 || options.gpu == 0) return options.slot_bytes;
  const arena::Stats stats = at.arena->stats();
  // a share of the free space: a job has one communicator per group of ranks; rank 0 decides
  const std::uint64_t left = stats.bytes_total - std::min(stats.bytes_used, stats.bytes_total);
  const std::uint64_t budget = std::min(at.pool->info().bytes / 8, left / 8);
  return std::clamp(budget / (slots * std::uint64_t{options.ranks}) / page * page, least, most);
}

/// GPUs of some ranks get the slots registered with the rest, so they do not come late.
Result<void> take_slots_for_gpus(penstock_comm& comm, const char* noun) {
  PENSTOCK_TRY(comm.core->await_slots(noun));
  const auto taken = comm.core->taken_slots();
  const auto slots = taken ? coll::find_area(*comm.attachment->arena, taken->area) : std::nullopt;
  if (slots) comm.places.push_back({slots->data, slots->bytes});
  return {};
}

bool may_be_direct(const pool::Pool& pool) {
  const bool is_temporary = pool.info().spec.starts_with(pool::temporary_pool_prefix);
  const bool may_be = !is_temporary || base::env_is_set("PENSTOCK_GPU_DIRECT");
  return may_be && base::env_flag("PENSTOCK_GPU_DIRECT");
}

coll::Agreement::Wishes wishes_of(const Attachment& at, const penstock_comm_options_t& options,
                                  bool check) {
  coll::Agreement::Wishes wishes{.slot_bytes = slot_bytes_for(at, options),
                                 .check = check,
                                 .by_gpu = options.gpu != 0,
                                 .late_slots = options.gpu == 0};
  if (options.gpu == 0) return wishes;
  const auto device = gpu::Device::current();
  if (!device) return wishes;
  wishes.gpu = (*device)->id();
  if (may_be_direct(*at.pool) && gpu::Communicator::can_be_direct(**device))
    wishes.direct = wishes.gpu;
  const auto flagged = gpu::FlaggedLaunches::offer(**device);
  if (!flagged) return wishes;  // the communicator's launches report the wrong variable
  wishes.flagged_bytes = static_cast<std::uint32_t>(flagged->bytes);
  wishes.flagged_anyhow = flagged->also_shared;
  return wishes;
}

/// For a rank whose exchange has failed. Those of the others may have succeeded: they open the
/// communicator, store to its memory, and learn in their first call that this rank has given up.
/// If rank 0's offer has not arrived here, this rank does not know where to say so.
void give_up_alone(const Attachment& at, coll::Agreement& agreement,
                   std::vector<coll::Offer> offers, const char* noun, const Error& error) {
  coll::Offer& first = offers.front();
  const auto own_areas = agreement.take_areas();
  if (!own_areas.empty()) first = agreement.own();
  const bool is_known = first.pool_id == agreement.own().pool_id && first.area != coll::Offer::none;
  const auto areas = agreement.areas(offers);
  if (is_known && areas) {
    coll::Options core = agreement.options(*at.pool, offers);
    core.noun = noun;
    core.in_switch.reset();
    core.is_switch_withdrawn = nullptr;
    const auto tokens = core.tokens;
    if (const auto opened = coll::Communicator::open(*at.pool, std::move(core))) {
      (*opened)->give_up(error, false);
      // the others may have left meanwhile, and passed the memory to this rank
      own_areas.empty() ? coll::end(*at.arena, **opened, tokens, *areas) : (*opened)->leave();
    }
  }
  for (const auto& area : own_areas) at.arena->defer_reclaim(area);
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
  if (options.slot_bytes % coherence::line_bytes != 0)
    return fail(ErrorCode::invalid_argument, "{}: slot_bytes is {}: a multiple of {} is needed",
                noun, options.slot_bytes, coherence::line_bytes);
  ClosedComms::of(*attachment).give_back();
  auto comm = std::make_unique<penstock_comm>(std::move(attachment));
  pool::Pool& pool = *comm->attachment->pool;
  coll::Agreement agreement(options.ranks, options.rank, offload::switch_port());
  const auto made = agreement.offer(coll::space_in(*comm->attachment->arena, new_name(pool)),
                                    wishes_of(*comm->attachment, options, check));
  // exchanges even without room: the other ranks wait for this rank's offer
  std::vector<coll::Offer> offers(options.ranks);
  const int exchanged =
      options.exchange(options.user, &agreement.own(), offers.data(), sizeof offers[0]);
  if (!made) {
    agreement.give_back();
    return unexpected(made.error());
  }
  // A rank whose exchange has failed alone may still store to the memory.
  const auto give_up = [&](const Error& error) {
    for (const auto& area : agreement.take_areas()) comm->attachment->arena->defer_reclaim(area);
    return unexpected(error);
  };
  if (exchanged != 0) {
    const Error error{ErrorCode::unavailable,
                      fmt::format("{}: the exchange function failed ({})", noun, exchanged)};
    give_up_alone(*comm->attachment, agreement, std::move(offers), noun, error);
    return unexpected(error);
  }
  if (auto fits = agreement.check(offers, noun); !fits) return give_up(fits.error());
  coll::Options core = agreement.options(pool, offers);
  // NCCL's and PyTorch's processes may have attached for different groups, so with different jobs
  const auto announced = pool.reclaim().shares_with(core.tokens);
  core.noun = noun;
  auto areas = agreement.areas(offers);
  if (!areas) return give_up(areas.error());
  comm->areas = *std::move(areas);
  const bool has_asked_switch = core.is_switch_withdrawn != nullptr;
  const bool takes_slots_now = core.shape.late_slots && core.mixed;
  comm->tokens = core.tokens;
  comm->places = places_of(core, pool, options.ranks);
  auto opened = coll::Communicator::open(pool, std::move(core));
  if (!opened) return give_up(opened.error());
  comm->core = std::move(*opened);
  const auto own_areas = agreement.take_areas();
  if (has_asked_switch) comm->switch_area = own_areas.back();
  // now, because the others, which may have succeeded, learn of it from the communicator's words
  if (!announced) {
    comm->core->give_up(announced.error(), false);
    comm->end();
    return unexpected(announced.error());
  }
  if (!takes_slots_now) return comm;
  const auto taken = take_slots_for_gpus(*comm, noun);
  if (taken) return comm;
  comm->end();
  return unexpected(taken.error());
}

ClosedComms& ClosedComms::of(Attachment& at) {
  const std::lock_guard<std::mutex> guard(at.mutex);
  if (at.closed == nullptr) at.closed = std::make_shared<ClosedComms>(at);
  return *at.closed;
}

void ClosedComms::add(std::unique_ptr<coll::Communicator> core, arena::Object words,
                      arena::Object region) {
  const std::lock_guard<std::mutex> guard(mutex_);
  closed_.push_back({std::move(core), std::move(words), std::move(region)});
}

void ClosedComms::give_back() {
  const std::lock_guard<std::mutex> guard(mutex_);
  std::erase_if(closed_, [&](const Closed& comm) {
    // the last rank to leave destroys the words
    const bool has_words = at_.arena->stands(comm.words);
    if (has_words || !comm.core->is_switch_withdrawn()) return false;
    (void)at_.arena->destroy(comm.region);
    return true;
  });
}

ClosedComms::~ClosedComms() {
  // Other ranks may compute for long before they leave; a process that closes its groups is quick.
  constexpr int patient_looks = 20;
  constexpr std::chrono::milliseconds between{5};
  const int looks = process_is_ending() ? 1 : patient_looks;
  for (int look = 0; look < looks && !closed_.empty(); ++look) {
    give_back();
    if (!closed_.empty()) std::this_thread::sleep_for(between);
  }
  for (const Closed& comm : closed_) at_.arena->defer_reclaim(comm.region);
}

}  // namespace penstock::capi

void penstock_comm::end() noexcept {
  using penstock::capi::ClosedComms;
  penstock::capi::guarded([&] {
    gpu.reset();
    // no GPU has reported the end: there is none, or it has made no call yet
    if (aborted)
      core->give_up({penstock::ErrorCode::unavailable, "the communicator was aborted"}, true);
    penstock::coll::end(*attachment->arena, *core, tokens, areas);
    if (!switch_area) return PENSTOCK_OK;
    ClosedComms& closed = ClosedComms::of(*attachment);
    closed.add(std::move(core), areas.front(), *std::move(switch_area));
    closed.give_back();
    return PENSTOCK_OK;
  });
}

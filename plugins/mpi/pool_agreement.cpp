#include "pool_agreement.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/checksum.hpp"
#include "base/env.hpp"
#include "base/log.hpp"
#include "coll/planning.hpp"
#include "coll/tuning_store.hpp"
#include "mpi_progress.hpp"
#include "pmpi.hpp"
#include "queue_thread.hpp"

namespace penstock::mpi {

namespace {

constexpr std::uint64_t none = ~std::uint64_t{0};

/// What a waiting thread does between two looks; several may wait at once.
class Idle {
 public:
  Idle(const std::atomic<Handle>& comm, pool::Pool& pool, std::vector<std::uint64_t> peers)
      : progress_(comm, pool, std::move(peers)) {}
  void look() {
    advance_queues();
    const std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (turn) progress_.look();
  }

 private:
  std::mutex turn_;
  MpiProgress progress_;
};

const coll::PlanOverride& plan_override() {
  static const coll::PlanOverride taken = [] {
    auto parsed = coll::parse_plan_override(base::env_text("PENSTOCK_COLL_PLAN"));
    if (parsed) return *parsed;
    base::log(base::Level::error, "PENSTOCK_COLL_PLAN is not used: {}", parsed.error().message);
    return coll::PlanOverride{};
  }();
  return taken;
}

std::uint64_t plan_hash() {
  const std::string text = base::env_text("PENSTOCK_COLL_PLAN");
  return base::xxh64(text.data(), text.size(), 0);
}

bool wants_naive() {
  return plan_override().variant == coll::Variant::naive;
}

coll::Devices devices_of(const pool::Striping& striping) {
  coll::Devices devices{
      .count = striping.parts, .stripe_bytes = striping.stripe_bytes, .sequential = wants_naive()};
  const std::uint32_t most = plan_override().devices;
  if (most != 0) devices.count = std::min(devices.count, most);
  return devices;
}

}  // namespace

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

Agreement::Agreement(Handle comm) : at_(attachment()), comm_(comm) {
  pmpi().Comm_size(comm, &size_);
  pmpi().Comm_rank(comm, &rank_);
}

void Agreement::exchange() {
  offer();
  pmpi().Allgather(&own_, sizeof own_, constants().byte, offers_.data(), sizeof own_,
                   constants().byte, comm_);
}

/// How long the table is, and how many areas there are, only rank 0 knows.
void Agreement::begin_to_exchange() {
  offer();
  table_.resize(coll::max_tuning_bytes);
  rest_came_ = true;
  pmpi().Iallgather(&own_, sizeof own_, constants().byte, offers_.data(), sizeof own_,
                    constants().byte, comm_, requests_[0]);
  pmpi().Ibcast(table_.data(), static_cast<int>(table_.size()), constants().byte, 0, comm_,
                requests_[1]);
  pmpi().Ibcast(slot_areas_.data(), static_cast<int>(sizeof slot_areas_), constants().byte, 0,
                comm_, requests_[2]);
}

bool Agreement::is_exchanged() {
  int flag = 1;
  for (Slot& request : requests_) {
    if (flag != 0) pmpi().Test(request, &flag, constants().status_ignore);
  }
  return flag != 0;
}

void Agreement::wait_until_exchanged() {
  for (Slot& request : requests_) pmpi().Wait(request, constants().status_ignore);
}

std::shared_ptr<PoolComm> Agreement::make() {
  if (acceptable()) return open();
  give_back();
  return nullptr;
}

void Agreement::give_back() {
  for (const auto& area : made_) at_->memory.give_back(area);
  made_.clear();
}

void Agreement::drop() {
  for (const auto& area : made_) at_->memory.leave_to_burial(area);
}

void Agreement::offer() {
  if (at_ != nullptr) {
    const pool::Pool& pool = at_->pool();
    own_.pool_id = pool.info().id;
    own_.token = pool.token();
    own_.node = pool.node();
    own_.plan = plan_hash();
    if (rank_ == 0) make_areas();
  }
  offers_.resize(static_cast<std::size_t>(size_));
}

void Agreement::make_areas() {
  const auto stats = at_->session->arena->stats();
  const auto shape =
      coll::shape_for(ranks(), stats.bytes_total, devices_of(at_->pool().info().striping));
  if (!make_areas(shape, stats) && shape.devices > 1)
    make_areas(coll::shape_for(ranks(), stats.bytes_total), stats);
  if (own_.area == none) return;
  if (const auto tuning = coll::tuning_in_force(*at_->session->arena)) {
    table_ = coll::encode(*tuning);
    own_.tuning_bytes = table_.size();
  }
}

/// False, and nothing is taken, where there is no room.
bool Agreement::make_areas(const coll::Shape& shape, const arena::Stats& stats) {
  const auto slot_areas = coll::Communicator::slot_areas(ranks(), shape);
  std::uint64_t bytes = coll::Communicator::bytes(ranks(), shape);
  for (const auto& area : slot_areas) bytes += area.bytes;
  // The rest is for messages, windows and other communicators.
  if (stats.bytes_used + bytes > stats.bytes_total / 2 || slot_areas.size() > max_slot_areas)
    return false;
  auto words = at_->memory.make(coll::Communicator::bytes(ranks(), shape));
  if (!words) return false;
  made_.push_back(*words);
  for (std::size_t i = 0; i < slot_areas.size(); ++i) {
    const auto made = at_->memory.make(slot_areas[i].bytes, false, slot_areas[i].device);
    if (!made) {
      give_back();
      return false;
    }
    made_.push_back(*made);
    slot_areas_[i] = made->offset;
  }
  const auto& memory = at_->pool().memory();
  const std::vector<std::byte> zeros(coll::Communicator::zeroed_bytes(ranks(), shape));
  memory.publish_bulk(words->data, zeros.data(), zeros.size());
  memory.full_fence();
  own_.area = words->offset;
  own_.slot_bytes = shape.slot_bytes;
  own_.eager_bytes = shape.eager_bytes;
  own_.devices = shape.devices;
  own_.area_slots = shape.area_slots;
  return true;
}

std::vector<std::uint64_t> Agreement::received_slot_areas(std::size_t count) {
  if (count != 0 && !rest_came_)
    pmpi().Bcast(slot_areas_.data(), static_cast<int>(sizeof slot_areas_), constants().byte, 0,
                 comm_);
  return {slot_areas_.begin(), slot_areas_.begin() + static_cast<std::ptrdiff_t>(count)};
}

/// All ranks have that of rank 0, also where the pool gets another one at this moment.
std::shared_ptr<const coll::Tuning> Agreement::received_tuning() {
  const std::uint64_t bytes = offers_.front().tuning_bytes;
  if (bytes == 0 || bytes > coll::max_tuning_bytes) return nullptr;
  table_.resize(bytes);
  if (!rest_came_) pmpi().Bcast(table_.data(), static_cast<int>(bytes), constants().byte, 0, comm_);
  auto tuning = coll::decode(table_);
  if (tuning) return std::make_shared<coll::Tuning>(*std::move(tuning));
  base::log(base::Level::warn, "rank 0's tuning table of collectives: {}; the built-in is used",
            tuning.error().message);
  return nullptr;
}

bool Agreement::acceptable() const {
  const Offer& first = offers_.front();
  bool apart = false;
  for (const Offer& offer : offers_) {
    if (offer.pool_id == 0 || offer.pool_id != first.pool_id) return false;
    apart = apart || offer.node != first.node;
  }
  const bool same_plan = std::all_of(offers_.begin(), offers_.end(), [&first](const Offer& offer) {
    return offer.plan == first.plan;
  });
  if (!same_plan && rank_ == 0)
    base::log(
        base::Level::error,
        "PENSTOCK_COLL_PLAN is not the same on all {} ranks of a communicator: the MPI serves "
        "its collectives",
        size_);
  return same_plan && apart && first.area != none;
}

std::shared_ptr<PoolComm> Agreement::open() {
  const Offer& first = offers_.front();
  coll::Options options{.area = first.area, .self = static_cast<std::uint32_t>(rank_)};
  for (const Offer& offer : offers_) {
    options.tokens.push_back(offer.token);
    options.nodes.push_back(offer.node);
  }
  options.check = base::env_flag("PENSTOCK_COLL_CHECK");
  options.plan_override = plan_override();
  options.shape = {.slot_bytes = first.slot_bytes,
                   .eager_bytes = first.eager_bytes,
                   .devices = first.devices,
                   .area_slots = first.area_slots,
                   .sequential = wants_naive()};
  const auto slot_areas = coll::Communicator::slot_areas(ranks(), options.shape);
  if (slot_areas.size() <= max_slot_areas)
    options.slot_areas = received_slot_areas(slot_areas.size());
  options.tuning = received_tuning();
  auto comm = std::make_shared<PoolComm>();
  comm->tuning_origin = options.tuning ? options.tuning->origin : "built in";
  comm->handle = comm->alive = comm_;
  options.idle = [idle = std::make_shared<Idle>(comm->alive, at_->pool(), options.tokens)] {
    idle->look();
  };
  auto opened = coll::Communicator::open(at_->pool(), std::move(options));
  if (!opened) {
    base::log(base::Level::error, "{}", opened.error().message);
    return nullptr;
  }
  comm->core = std::move(*opened);
  comm->queue.emplace(*comm->core);
  comm->areas = made_;
  return comm;
}

}  // namespace penstock::mpi

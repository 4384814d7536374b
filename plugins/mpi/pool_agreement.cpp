#include "pool_agreement.hpp"

#include <mutex>
#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"
#include "coll/tuning.hpp"
#include "mpi_progress.hpp"
#include "offload/switch_port.hpp"
#include "pmpi.hpp"
#include "queue_thread.hpp"
#include "taking_part.hpp"

namespace penstock::mpi {

namespace {

/// Makes progress while threads wait for a collective; several may wait at once.
class Idle {
 public:
  Idle(PoolComm& comm, pool::Pool& pool, std::vector<std::uint64_t> peers)
      : asking_(comm.asking), progress_(comm.alive, pool, std::move(peers)) {}
  void look() {
    advance_queues();
    const std::unique_lock<std::mutex> turn(asking_, std::try_to_lock);
    if (turn) progress_.look();
  }

 private:
  std::mutex& asking_;
  MpiProgress progress_;
};

}  // namespace

bool may_be_ours(Handle comm) {
  int inter = 0, size = 0;
  if (!has_world() || !pool_is_named()) return false;
  if (pmpi().Comm_test_inter(comm, &inter) != constants().success || inter != 0) return false;
  if (pmpi().Comm_size(comm, &size) != constants().success || size < 2) return false;
  return all_take_part(comm, Shared::collectives);
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

void Agreement::begin_to_exchange() {
  offer();
  pmpi().Iallgather(&own_, sizeof own_, constants().byte, offers_.data(), sizeof own_,
                    constants().byte, comm_, request_);
}

bool Agreement::is_exchanged() {
  int flag = 1;
  pmpi().Test(request_, &flag, constants().status_ignore);
  return flag != 0;
}

void Agreement::wait_until_exchanged() {
  pmpi().Wait(request_, constants().status_ignore);
}

std::shared_ptr<PoolComm> Agreement::make() {
  if (acceptable()) return open();
  if (agreement_) agreement_->give_back();
  return nullptr;
}

void Agreement::drop() {
  if (!agreement_) return;
  for (const auto& area : agreement_->take_areas()) at_->memory.defer_reclaim(area);
}

/// Offers this rank's memory. If the pool is full, the MPI serves the communicator, as it does
/// without a pool.
void Agreement::offer() {
  offers_.resize(static_cast<std::size_t>(size_));
  if (at_ == nullptr) return;
  PoolMemory& memory = at_->memory;
  agreement_.emplace(static_cast<std::uint32_t>(size_), static_cast<std::uint32_t>(rank_),
                     offload::switch_port());
  // Collectives take a share of the pool: messages, windows and other communicators need the rest.
  (void)agreement_->offer(
      {.arena = *at_->session->arena,
       .make =
           [&memory](std::uint64_t bytes, std::optional<std::uint32_t> part) {
             return part ? memory.make(bytes, false, part) : memory.make_words(bytes);
           },
       .give_back = [&memory](const arena::Object& area) { memory.give_back(area); }},
      {.check = base::env_flag("PENSTOCK_COLL_CHECK"), .max_pool_parts = 2});
  own_ = agreement_->own();
}

/// True if the pool can serve the communicator. The same on all ranks.
bool Agreement::acceptable() const {
  const coll::Offer& first = offers_.front();
  bool apart = false;
  for (const coll::Offer& offer : offers_) {
    if (offer.pool_id == 0 || offer.pool_id != first.pool_id) return false;
    apart = apart || offer.node != first.node;
  }
  if (!apart || first.area == coll::Offer::none) return false;
  const auto fits = agreement_->check(offers_, "communicator");
  if (!fits && rank_ == 0)
    base::log(base::Level::error, "{}: the MPI serves its collectives", fits.error().message);
  return fits.has_value();
}

std::shared_ptr<PoolComm> Agreement::open() {
  coll::Options options = agreement_->options(at_->pool(), offers_);
  auto comm = std::make_shared<PoolComm>();
  comm->tuning_origin = options.tuning ? options.tuning->origin : "built in";
  comm->handle = comm->alive = comm_;
  options.idle = [idle = std::make_shared<Idle>(*comm, at_->pool(), options.tokens)] {
    idle->look();
  };
  auto opened = coll::Communicator::open(at_->pool(), std::move(options));
  if (!opened) {
    base::log(base::Level::error, "{}", opened.error().message);
    return nullptr;
  }
  comm->core = std::move(*opened);
  comm->queue.emplace(*comm->core);
  comm->areas = agreement_->take_areas();
  return comm;
}

}  // namespace penstock::mpi

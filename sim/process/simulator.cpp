// The simulated mode of real processes. Linked into every program that attaches to pools; registers
// itself before main(), and costs nothing until a pool in simulated mode is attached.
#include <unistd.h>

#include <atomic>

#include "base/format.hpp"
#include "base/log.hpp"
#include "coherence/coherence.hpp"
#include "sim/process/node_cache.hpp"
#include "sim/process/settings.hpp"
#include "sim/process/thread_cores.hpp"

namespace penstock::sim {

namespace {

using coherence::Ops;

Core& as_core(void* self) {
  return *static_cast<Core*>(self);
}

/// An operation of the model, on the core of the calling thread.
template <auto operation>
struct OfThread;

template <class Given, class... Arguments, Given (*Ops::*operation)(void*, Arguments...)>
struct OfThread<operation> {
  static Given call(void* self, Arguments... arguments) {
    ThreadCore& mine = static_cast<ThreadCores*>(self)->mine();
    const std::lock_guard lock(mine.mutex());
    return (simulated_ops().*operation)(&mine.core(), arguments...);
  }
};

/// The same, but sometimes left out if PENSTOCK_SIM_BREAK asks for that.
template <Break::Operation kind, auto operation>
struct Breakable;

template <Break::Operation kind, class... Arguments, void (*Ops::*operation)(void*, Arguments...)>
struct Breakable<kind, operation> {
  static void call(void* self, Arguments... arguments) {
    auto& cores = *static_cast<ThreadCores*>(self);
    const bool concerned = cores.left_out().operation == kind;
    if (concerned && cores.mine().leave_out(cores.left_out())) return;
    OfThread<operation>::call(self, arguments...);
  }
};

void invalidate(void* self, const void* at, std::size_t bytes) {
  static_cast<ThreadCores*>(self)->count_reads(at, bytes);
  Breakable<Break::Operation::invalidate, &Ops::invalidate>::call(self, at, bytes);
}

std::uint64_t device_reads(void* self) {
  return static_cast<ThreadCores*>(self)->reads();
}

const Ops& operations() {
  using Operation = Break::Operation;
  static const Ops table = {
      .publish_word = OfThread<&Ops::publish_word>::call,
      .publish_bytes = OfThread<&Ops::publish_bytes>::call,
      .publish_line = OfThread<&Ops::publish_line>::call,
      .send_line = OfThread<&Ops::send_line>::call,
      .publish_bulk = OfThread<&Ops::publish_bulk>::call,
      .publish_tagged = OfThread<&Ops::publish_tagged>::call,
      .stream_line = OfThread<&Ops::stream_line>::call,
      .stream_tagged = OfThread<&Ops::stream_tagged>::call,
      .write_back = Breakable<Operation::write_back, &Ops::write_back>::call,
      .store_fence = OfThread<&Ops::store_fence>::call,
      .invalidate = invalidate,
      .fetch = OfThread<&Ops::fetch>::call,
      .load_fence = Breakable<Operation::load_fence, &Ops::load_fence>::call,
      .load_word = OfThread<&Ops::load_word>::call,
      .load_line = OfThread<&Ops::load_line>::call,
      .load_bulk = OfThread<&Ops::load_bulk>::call,
      .load_tagged = OfThread<&Ops::load_tagged>::call,
      .full_fence = OfThread<&Ops::full_fence>::call,
      .device_reads = device_reads,
  };
  return table;
}

/// Held by an attachment; closes before the pool is unmapped.
class Attached {
 public:
  explicit Attached(std::shared_ptr<ThreadCores> cores) : cores_(std::move(cores)) {}
  ~Attached() { cores_->close(); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  std::shared_ptr<ThreadCores> cores_;
};

class ProcessSimulator : public coherence::Simulator {
 public:
  Result<coherence::View> view(const coherence::PoolMapping& place) override {
    const auto settings = PENSTOCK_TRY(settings_from_environment());
    auto cache = PENSTOCK_TRY(NodeCache::open(place));
    const std::uint64_t seed = settings.seed.value_or(place.pool_id);
    auto cores = std::make_shared<ThreadCores>(std::move(cache), settings,
                                               seed + place.node * 0x9e3779b97f4a7c15u);
    if (!place.observer) {
      base::log(base::Level::info, "pool {}: simulated mode, node {}, pid {}, seed {}, faults {}",
                place.path, place.node, ::getpid(), seed,
                settings.faults ? faults_text(*settings.faults) : "of each thread");
      cores->start_flusher();
    }
    return coherence::View{
        .memory = coherence::Memory(coherence::Mode::simulated, &operations(), cores.get()),
        .base = cores->base(),
        .keep = std::make_shared<Attached>(cores)};
  }
  bool stands_for_all() const override { return false; }
};

/// Never destroyed: a program's exit handlers may detach pools.
bool make_known() {
  set_current_core(as_core);
  coherence::use_simulator(new ProcessSimulator);
  return true;
}
const bool known = make_known();

}  // namespace

}  // namespace penstock::sim

#include "gpu/communicator.hpp"

#include <pthread.h>

#include <chrono>

#include "base/format.hpp"
#include "coll/mover.hpp"

namespace penstock::gpu {

/// What the streams have done of one call, for the thread that keeps the protocol.
class Communicator::Gates : public coll::Mover {
 public:
  Gates(Communicator& owner, const Submission& submitted) : owner_(owner), submitted_(submitted) {}

  void allow(Lane lane, std::size_t segment) override {
    owner_.lanes_->allow(lane, ticket(lane, segment));
  }
  bool is_done(Lane lane, std::size_t segment) override {
    constexpr std::uint32_t looks_between_checks = 4096;
    if (owner_.lanes_->is_done(lane, ticket(lane, segment))) return true;
    if (++looks_ % looks_between_checks == 0) check();
    return false;
  }
  /// Why the call was cancelled.
  const Result<void>& gpu() const { return gpu_; }

 private:
  std::uint64_t ticket(Lane lane, std::size_t segment) const {
    return submitted_.base[static_cast<std::size_t>(lane)] + segment + 1;
  }
  void check() {
    gpu_ = owner_.lanes_->check();
    if (!gpu_) owner_.cancel();
  }

  Communicator& owner_;
  const Submission& submitted_;
  std::uint32_t looks_ = 0;
  Result<void> gpu_;
};

Result<std::unique_ptr<Communicator>> Communicator::open(coll::Communicator& core,
                                                         const std::vector<Area>& areas,
                                                         std::shared_ptr<const Device> device) {
  std::unique_ptr<Communicator> made(new Communicator(core, device));
  for (const Area& area : areas)
    made->pinned_.push_back(PENSTOCK_TRY(Pinned::make(device, area.begin, area.bytes)));
  made->lanes_ = PENSTOCK_TRY(Lanes::make(device));
  made->proxy_ = std::thread([raw = made.get()] { raw->run_proxy(); });
  return made;
}

Communicator::~Communicator() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (proxy_.joinable()) proxy_.join();
  lanes_.reset();
  const Device::Scope scope(*device_);
  for (const cuda::DevicePointer memory : scratch_) (void)device_->driver().mem_free(memory);
}

Result<void> Communicator::enqueue(const Call& call, cuda::Stream stream) {
  if (const auto failed = error()) return unexpected(*failed);
  const Device::Scope scope(*device_);
  const cuda::Driver& driver = device_->driver();
  int capturing = cuda::capture_none;
  PENSTOCK_TRY(driver.check(driver.stream_is_capturing(stream, &capturing), "the stream"));
  if (capturing != cuda::capture_none)
    return fail(ErrorCode::invalid_argument,
                "{}: the stream captures a graph, and a collective through the pool cannot be "
                "captured yet: enqueue it outside the graph",
                call.name);
  const Submission submitted = PENSTOCK_TRY(prepare(call));
  {
    // Before the streams get it: what is queued there may have to go on before all of it fits.
    const std::lock_guard<std::mutex> guard(mutex_);
    queue_.push_back(submitted);
  }
  submitted_.fetch_add(1, std::memory_order_release);
  changed_.notify_all();
  auto issued = issue(call, submitted, stream);
  if (!issued) {
    fail_with(issued.error());
    cancel();
  }
  return issued;
}

Result<Communicator::Submission> Communicator::prepare(const Call& call) {
  const coll::Call core_call{
      .name = call.name.c_str(), .problem = &call.problem, .plan = core_.plan(call.problem)};
  Submission made{.name = call.name,
                  .prepared = PENSTOCK_TRY(core_.prepare_moved(core_call)),
                  .fingerprint = call.fingerprint,
                  .timeout_ns = call.timeout_ns};
  const auto& schedule = made.prepared->schedule;
  if (call.reducing) PENSTOCK_TRY(device_->combine_kernel(call.reducing->type));
  for (const coll::Step& step : schedule.steps)
    if (step.operand_count > max_operands)
      return fail(ErrorCode::invalid_argument,
                  "{}: a GPU reduces the values of {} ranks at most, and there are {}", call.name,
                  max_operands, step.operand_count);
  PENSTOCK_TRY(ensure_scratch(schedule.scratch_bytes));
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (queue_.empty()) number_ = core_.begun();  // the host may have made calls in between
  }
  made.number = ++number_;
  for (std::size_t lane = 0; lane < coll::lane_count; ++lane) {
    made.base[lane] = segments_[lane];
    segments_[lane] += made.prepared->program.lanes[lane].size();
  }
  made.last = ++segments_[static_cast<std::size_t>(Lane::read)];
  return made;
}

/// Streams may still use what is too short now: it stays.
Result<void> Communicator::ensure_scratch(std::uint64_t bytes) {
  if (bytes <= scratch_bytes_) return {};
  cuda::DevicePointer memory = 0;
  PENSTOCK_TRY(device_->driver().check(device_->driver().mem_alloc(&memory, bytes),
                                       "scratch memory of a collective"));
  scratch_.push_back(memory);
  scratch_bytes_ = bytes;
  return {};
}

Result<void> Communicator::issue(const Call& call, const Submission& submitted,
                                 cuda::Stream stream) {
  const auto& steps = submitted.prepared->schedule.steps;
  std::array<std::int64_t, coll::lane_count> joined{-1, -1};
  PENSTOCK_TRY(lanes_->begin_after(stream));
  for (const coll::Event& event : submitted.prepared->program.events) {
    const auto lane = static_cast<std::size_t>(event.lane);
    const std::uint64_t segments = submitted.base[lane] + event.number + 1;
    if (event.kind == coll::Event::Kind::gate) {
      PENSTOCK_TRY(lanes_->wait_for_gate(event.lane, segments));
    } else if (event.kind == coll::Event::Kind::mark) {
      PENSTOCK_TRY(lanes_->set_mark(event.lane, segments));
    } else {
      const coll::Step& step = steps[event.number];
      const bool of_other =
          step.after >= 0 && steps[static_cast<std::size_t>(step.after)].lane != step.lane;
      if (of_other && step.after > joined[lane]) {
        PENSTOCK_TRY(lanes_->join(event.lane));
        joined[lane] = event.number;
      }
      PENSTOCK_TRY(move(call, submitted, step));
    }
  }
  // Done means that the others know of it too: the program may end now.
  PENSTOCK_TRY(lanes_->wait_for_gate(Lane::read, submitted.last));
  return lanes_->end_before(stream);
}

cuda::DevicePointer Communicator::at(const Call& call, const coll::Span& span) const {
  cuda::DevicePointer begin = call.input;
  if (span.buffer == coll::Buffer::output) begin = call.output;
  if (span.buffer == coll::Buffer::scratch) begin = scratch_.back();
  return begin + span.offset;
}

cuda::DevicePointer Communicator::chunk_at(const Submission& submitted, std::uint32_t rank,
                                           std::uint64_t chunk, std::uint64_t at) const {
  const std::byte* const memory =
      core_.chunk_of(*submitted.prepared, submitted.number, rank, chunk) + at;
  for (const Pinned& pinned : pinned_)
    if (pinned.has(memory)) return pinned.at(memory);
  return 0;
}

Result<void> Communicator::copy(cuda::DevicePointer to, cuda::DevicePointer from,
                                std::uint64_t bytes, Lane lane) {
  if (bytes == 0 || to == from) return {};
  return device_->driver().check(device_->driver().copy(to, from, bytes, lanes_->stream(lane)),
                                 "a copy");
}

Result<void> Communicator::move(const Call& call, const Submission& submitted,
                                const coll::Step& step) {
  const cuda::DevicePointer here = at(call, step.span);
  switch (step.kind) {
    case coll::StepKind::publish:
      return copy(chunk_at(submitted, core_.self(), step.chunk, step.at), here, step.span.bytes,
                  step.lane);
    case coll::StepKind::copy:
      return copy(here, chunk_at(submitted, step.rank, step.chunk, step.at), step.span.bytes,
                  step.lane);
    case coll::StepKind::move:
      return copy(here, at(call, step.from), step.span.bytes, step.lane);
    case coll::StepKind::combine:
      return combine(call, submitted, step);
    default:
      return {};
  }
}

Result<void> Communicator::combine(const Call& call, const Submission& submitted,
                                   const coll::Step& step) {
  const auto& operands = submitted.prepared->schedule.operands;
  const auto address_of = [&](std::uint32_t i) {
    const coll::Operand& value = operands[step.first_operand + i];
    return value.own ? at(call, value.span)
                     : chunk_at(submitted, value.rank, value.chunk, value.at);
  };
  const cuda::DevicePointer result = at(call, step.span);
  if (step.operand_count == 1 && copies_one(*call.reducing))
    return copy(result, address_of(0), step.span.bytes, step.lane);
  Combine combining;
  combining.result = reinterpret_cast<void*>(result);
  combining.elements = step.span.bytes / coll::bytes_of(call.reducing->type);
  combining.operands = step.operand_count;
  for (std::uint32_t i = 0; i < step.operand_count; ++i)
    combining.operand[i] = reinterpret_cast<const void*>(address_of(i));
  if (combining.elements == 0) return {};
  return launch(*device_, *call.reducing, core_.ranks(), combining, lanes_->stream(step.lane));
}

/// The thread that keeps the protocol. It looks for the next call a while before it sleeps: waking
/// up takes longer than a small collective.
void Communicator::run_proxy() {
  pthread_setname_np(pthread_self(), "penstock-gpu");
  constexpr std::chrono::microseconds stays_awake{100};
  const Device::Scope scope(*device_);
  std::uint64_t done = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (queue_.empty() && !ends_) {
      lock.unlock();
      const auto until = std::chrono::steady_clock::now() + stays_awake;
      while (submitted_.load(std::memory_order_acquire) == done &&
             std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
      lock.lock();
    }
    const auto must_tell = [this] { return error_ && !others_know_; };
    changed_.wait(lock, [&] { return !queue_.empty() || ends_ || must_tell(); });
    if (must_tell()) {
      core_.give_up(*error_);
      others_know_ = true;
    }
    if (queue_.empty() && ends_) return;
    if (queue_.empty()) continue;
    Submission& submitted = queue_.front();
    lock.unlock();
    run(submitted);
    lock.lock();
    queue_.pop_front();
    ++done;
    changed_.notify_all();
  }
}

void Communicator::run(const Submission& submitted) {
  if (error()) return;
  Gates gates(*this, submitted);
  auto done = core_.run({.name = submitted.name.c_str(),
                         .problem = &submitted.prepared->problem,
                         .plan = submitted.prepared->plan,
                         .fingerprint = submitted.fingerprint,
                         .mover = &gates,
                         .timeout_ns = submitted.timeout_ns,
                         .cancelled = &cancelled_},
                        *submitted.prepared);
  if (!gates.gpu()) return fail_with(gates.gpu().error());
  if (!done) return fail_with(done.error());
  lanes_->allow(Lane::read, submitted.last);
}

void Communicator::fail_with(const Error& error) {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!error_) error_ = error;
  }
  changed_.notify_all();
  lanes_->open_all();
}

std::optional<Error> Communicator::error() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return error_;
}

void Communicator::abort() {
  fail_with({ErrorCode::unavailable, "the communicator was aborted"});
  cancel();
}

Result<void> Communicator::drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty(); });
  if (error_) return unexpected(*error_);
  return {};
}

}  // namespace penstock::gpu

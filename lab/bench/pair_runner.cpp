#include "bench/pair_runner.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "bench/supervisor.hpp"

namespace penstock::bench {

// ---- one side --------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t longest_nap_ns = 20'000'000;
constexpr int polls_before_yield = 20'000;

void await(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  for (int polls = 0; word.load(std::memory_order_acquire) < value;)
    if (++polls > polls_before_yield) sched_yield();
}

void set_scheduler(int policy, int priority) {
  sched_param parameters{};
  parameters.sched_priority = priority;
  sched_setscheduler(0, policy, &parameters);
}

}  // namespace

void Side::meet() {
  ++rounds_;
  shared_.arrived[index_].value.store(rounds_, std::memory_order_release);
  await(shared_.arrived[1 - index_].value, rounds_);
}

std::uint64_t Side::exchange(std::uint64_t mine) {
  shared_.note[index_].value.store(mine, std::memory_order_release);
  meet();
  const std::uint64_t theirs = shared_.note[1 - index_].value.load(std::memory_order_acquire);
  meet();  // neither side may write the next number before both have read this one
  return theirs;
}

std::string Side::exchange(const std::string& mine) {
  const std::size_t bytes = std::min(mine.size(), letter_bytes);
  std::memcpy(shared_.letter[index_], mine.data(), bytes);
  const std::uint64_t theirs = exchange(bytes);
  const std::string letter(shared_.letter[1 - index_], std::min<std::size_t>(theirs, letter_bytes));
  meet();  // neither side may write the next letter before both have read this one
  return letter;
}

void Side::await_signal(std::uint64_t value) const {
  await(shared_.signal[1 - index_].value, value);
}

double Side::plain_handover_ns() {
  constexpr int warm_up = 4, measured = 24;
  auto& mine = shared_.ball[index_].value;
  const auto& theirs = shared_.ball[1 - index_].value;
  const auto play = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      ++balls_;
      if (index_ == 0) mine.store(balls_, std::memory_order_release);
      while (theirs.load(std::memory_order_acquire) < balls_) {
      }
      if (index_ == 1) mine.store(balls_, std::memory_order_release);
    }
  };
  meet();
  play(warm_up);
  return burst([&] { play(measured); }) / (2.0 * measured);
}

void Side::raise_priority() const {
  if (fifo_) set_scheduler(SCHED_FIFO, 1);
}

void Side::restore_priority(std::uint64_t burst_ns) const {
  if (!fifo_) return;
  set_scheduler(SCHED_OTHER, 0);
  const timespec nap{0, static_cast<long>(std::min(burst_ns, longest_nap_ns))};
  nanosleep(&nap, nullptr);
}

// ---- both ---------------------------------------------------------------------------------------

Result<void> run_pair(const PairOptions& options, const std::function<Result<void>(Side&)>& body) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2)
    return fail(ErrorCode::unavailable,
                "a measurement needs two CPUs, this process may use {}: see taskset -p $$",
                cpus.size());
  void* memory =
      mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail(ErrorCode::no_space, "cannot map {} bytes: {}", sizeof(SharedState),
                std::strerror(errno));
  auto* shared = new (memory) SharedState{};
  Result<void> result;
  {
    Supervisor supervisor(2, "side", options.timeout_ns);
    for (unsigned index = 0; index < 2 && result; ++index)
      result = supervisor.start(index, cpus[index], [&]() -> Result<void> {
        Side side(index, *shared, options.fifo);
        return body(side);
      });
    if (result) result = supervisor.watch();
  }
  munmap(memory, sizeof(SharedState));
  return result;
}

}  // namespace penstock::bench

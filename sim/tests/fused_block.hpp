// The kernel of gpu/fused.hpp on simulated nodes: a block of two threads, out of step, whose stores
// to the pool leave the GPU in any order that no fence forbids. They go past all caches, or into
// those of the node's host. A barrier of the block orders only what its threads do among
// themselves; for others, only a thread's fence then orders what all of them did before. A proof
// may leave out one barrier or fence of the kernel.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "coherence/coherence.hpp"
#include "gpu/fused.hpp"
#include "schedule/test_calls.hpp"

namespace penstock::sim {

using coherence::Site;
using coherence::Weakening;

inline constexpr std::uint32_t fused_block_threads = 2;

/// Shared by the threads.
struct FusedBlock {
  const coherence::Memory memory;
  const std::byte* const pool;
  const std::uint64_t pool_bytes;
  const std::function<void()> pause;
  const bool through_caches = false;  ///< of the host: what is not coherent is for its threads
  std::mt19937_64 random{};
  struct Store {
    std::byte* to = nullptr;
    std::vector<std::byte> bytes;
  };
  std::array<std::vector<Store>, fused_block_threads> leaving{};  ///< stores on their way to caches
  std::uint64_t arrivals = 0, failures = 0;                       ///< at barriers
  std::uint64_t fences = 0;                                       ///< fences that were begun
  std::array<std::uint64_t, fused_block_threads> fenced{};

  bool has(const void* at) const {
    const auto* const byte = static_cast<const std::byte*>(at);
    return byte >= pool && byte < pool + pool_bytes;
  }
};

class FusedThread {
 public:
  FusedThread(FusedBlock& block, std::uint32_t thread) : block_(block), thread_(thread) {}

  std::uint32_t thread() const { return thread_; }
  std::uint32_t threads() const { return fused_block_threads; }
  std::uint64_t load(const std::uint64_t* word) const {
    serve();
    return block_.has(word) ? block_.memory.observe_word(word) : *word;
  }
  void store(std::uint64_t* word, std::uint64_t value) const {
    pause();  // others may be done with theirs before: late by some operations
    block_.has(word) ? block_.memory.publish_word(word, value) : void(*word = value);
  }
  /// Stores of a GPU leave it in the end.
  void pause() const {
    constexpr std::uint64_t looks_between_fences = 8;
    if (!serve() && ++looks_ % looks_between_fences == 0)
      block_.through_caches ? leave_one() : block_.memory.store_fence();
    block_.pause();
  }
  /// All its stores have left the GPU.
  void finish() const {
    if (!block_.through_caches) return block_.memory.full_fence();
    while (!block_.leaving[thread_].empty()) leave_one();
  }
  void sync_threads(Site site = Site::here()) const {
    if (!coherence::weakened(Weakening::wait, site)) arrive();
  }
  bool sync_and(bool goes_on, Site site = Site::here()) const {
    if (coherence::weakened(Weakening::wait, site)) return goes_on;
    if (!goes_on) ++block_.failures;
    arrive();
    const bool all = block_.failures == 0;
    arrive();
    return all;
  }
  void release_fence(Site site = Site::here()) const {
    if (coherence::weakened(Weakening::store_fence, site)) return;
    const std::uint64_t wanted = ++block_.fences;
    for (const std::uint64_t& fenced : block_.fenced)
      while (fenced < wanted) pause();
  }
  void copy(const gpu::FusedCall::Move& move, const void* from, std::uint32_t first) const {
    for_lines(move.bytes, first, [&](std::uint64_t at, std::uint64_t bytes) {
      std::array<std::byte, coherence::line_bytes> line;
      take(line.data(), static_cast<const std::byte*>(from) + at, bytes);
      put(static_cast<std::byte*>(move.to) + at, line.data(), bytes);
    });
  }
  template <class Format, class Call>
  void combine(const Call&, const gpu::Values& values, std::uint32_t first) const {
    const coll::WordArithmetic arithmetic;
    const std::uint64_t all = values.elements * sizeof(typename Format::Word);
    for_lines(all, first, [&](std::uint64_t at, std::uint64_t bytes) {
      std::array<std::byte, coherence::line_bytes> sum, value;
      for (std::uint32_t k = 0; k < values.operands; ++k) {
        take(value.data(), static_cast<const std::byte*>(values.operand[k]) + at, bytes);
        if (k == 0) arithmetic.first(sum.data(), value.data(), bytes);
        if (k != 0) arithmetic.add(sum.data(), value.data(), bytes);
      }
      put(static_cast<std::byte*>(values.result) + at, sum.data(), bytes);
    });
  }

 protected:
  std::uint64_t random() const { return block_.random(); }
  void store_in_pool(std::uint64_t* to, std::uint64_t value, Site site) const {
    block_.memory.publish_word(to, value, site);
  }

 private:
  /// Another thread's fence also covers this thread's stores: they must be at the device before a
  /// store of that thread. So this thread orders them as soon as it does anything, before it does
  /// more.
  bool serve() const {
    const std::uint64_t wanted = block_.fences;
    if (block_.fenced[thread_] == wanted) return false;
    finish();
    block_.fenced[thread_] = wanted;
    return true;
  }
  /// Arrives at a barrier; a barrier ends when all threads have arrived equally often.
  void arrive() const {
    const std::uint64_t all = (++block_.arrivals + threads() - 1) / threads() * threads();
    while (block_.arrivals < all) pause();
  }
  template <class Visit>
  void for_lines(std::uint64_t all, std::uint32_t first, const Visit& visit) const {
    constexpr std::uint64_t line = coherence::line_bytes;
    for (std::uint64_t at = first * line; at < all; at += threads() * line) {
      visit(at, std::min(line, all - at));
      pause();
    }
  }
  void take(std::byte* to, const std::byte* from, std::uint64_t bytes) const {
    serve();
    if (!block_.has(from))
      std::memcpy(to, from, bytes);
    else if (block_.through_caches)
      block_.memory.load_bulk(to, from, bytes);
    else
      block_.memory.observe_bulk(to, from, bytes);
  }
  void put(std::byte* to, const std::byte* from, std::uint64_t bytes) const {
    if (!block_.has(to))
      std::memcpy(to, from, bytes);
    else if (block_.through_caches)
      block_.leaving[thread_].push_back({to, {from, from + bytes}});
    else
      block_.memory.publish_bulk(to, from, bytes);
  }
  /// Any of them.
  void leave_one() const {
    auto& stores = block_.leaving[thread_];
    if (stores.empty()) return;
    std::swap(stores[block_.random() % stores.size()], stores.back());
    std::memcpy(stores.back().to, stores.back().bytes.data(), stores.back().bytes.size());
    stores.pop_back();
  }

  FusedBlock& block_;
  const std::uint32_t thread_;
  mutable std::uint64_t looks_ = 0;
};

}  // namespace penstock::sim

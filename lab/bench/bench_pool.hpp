// The pool in which a benchmark measures: a temporary one, removed at the end, or a given one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "arena/arena.hpp"

namespace penstock::bench {

/// Held by the supervisor; the measuring processes attach by spec().
class BenchPool {
 public:
  /// `spec` "": a temporary pool shm:penstock-bench-PID. An existing pool is used and left as
  /// found; its mode must be `mode` (error: mismatch).
  static Result<BenchPool> prepare(const std::string& spec, std::uint64_t bytes,
                                   coherence::Mode mode);
  BenchPool(BenchPool&& other) noexcept;
  BenchPool& operator=(BenchPool&&) = delete;
  ~BenchPool();
  const std::string& spec() const { return spec_; }

 private:
  BenchPool(std::string spec, bool own) : spec_(std::move(spec)), own_(own) {}
  std::string spec_;
  bool own_;
};

/// One process's attachment to the pool, on emulated node `node` or on one of its own.
struct Attachment {
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;

  static Result<Attachment> open(const std::string& spec, unsigned rank,
                                 std::optional<unsigned> node = {});
  /// For a process that measures alone; as BenchPool::prepare(). A pool that it makes has no name
  /// any more: however this process ends, nothing is left of it.
  static Result<Attachment> open_alone(const std::string& spec, std::uint64_t bytes,
                                       coherence::Mode mode);
};

}  // namespace penstock::bench

#include "bench/bench_pool.hpp"

#include <unistd.h>

#include "base/format.hpp"
#include "base/log.hpp"
#include "bench/supervisor.hpp"

namespace penstock::bench {

Result<BenchPool> BenchPool::prepare(const std::string& spec, std::uint64_t bytes,
                                     coherence::Mode mode) {
  if (!spec.empty()) {
    const auto found = pool::inspect(spec);
    if (found && found->mode == mode) return BenchPool(spec, false);
    if (found)
      return fail(ErrorCode::mismatch,
                  "pool {} is in mode {}, and mode {} was to be measured: give --mode {}", spec,
                  coherence::mode_name(found->mode), coherence::mode_name(mode),
                  coherence::mode_name(found->mode));
    if (found.error().code != ErrorCode::not_found) return unexpected(found.error());
  }
  pool::CreateOptions options;
  options.spec = spec.empty() ? fmt::format("shm:penstock-bench-{}", getpid()) : spec;
  options.bytes = bytes;
  options.mode = mode;
  PENSTOCK_TRY(pool::create(options));
  return BenchPool(options.spec, true);
}

BenchPool::BenchPool(BenchPool&& other) noexcept : spec_(std::move(other.spec_)), own_(other.own_) {
  other.own_ = false;
}

BenchPool::~BenchPool() {
  if (!own_) return;
  if (auto removed = pool::remove(spec_, true); !removed)
    base::log(base::Level::warn, "{}", removed.error().message);
}

Result<Attachment> Attachment::open(const std::string& spec, unsigned rank,
                                    std::optional<unsigned> node) {
  pool::AttachOptions options;
  options.spec = spec;
  options.rank = static_cast<std::int32_t>(rank);
  options.job = "bench";
  options.emulated_node = node.value_or(rank);
  auto pool = PENSTOCK_TRY(pool::Pool::attach(options));
  auto arena = PENSTOCK_TRY(arena::Arena::open(*pool));
  return Attachment{std::move(pool), std::move(arena)};
}

Result<Attachment> Attachment::open_alone(const std::string& spec, std::uint64_t bytes,
                                          coherence::Mode mode) {
  const HeldSignals none_while_it_has_a_name;
  const auto pool = PENSTOCK_TRY(BenchPool::prepare(spec, bytes, mode));
  return open(pool.spec(), 0);
}

}  // namespace penstock::bench

// Objects in a pool's arena. Another attachment, on another emulated node, reads the results: in
// software and simulated mode it finds only data that was published and observed.
#include <algorithm>
#include <vector>

#include "base/format.hpp"
#include "bench/bench_pool.hpp"
#include "bench/stream/targets.hpp"

namespace penstock::bench::stream {

namespace {

using LeftOut = TargetSpec::LeftOut;
constexpr const char* names[] = {"stream.a", "stream.b", "stream.c"};

class PoolTarget final : public Target {
 public:
  PoolTarget(const TargetSpec& spec, BenchPool pool) : spec_(spec), pool_(std::move(pool)) {}
  ~PoolTarget() override {
    for (const arena::Object& object : objects_) (void)writer_.arena->destroy(object);
  }

  Result<void> make_arrays(std::uint64_t elements) {
    writer_ = PENSTOCK_TRY(Attachment::open(pool_.spec(), 0));
    reader_ = PENSTOCK_TRY(Attachment::open(pool_.spec(), 1));
    const std::uint64_t lines = (elements + line_elements - 1) / line_elements;
    for (const char* const name : names)
      objects_.push_back(PENSTOCK_TRY(
          writer_.arena->create(name, lines * coherence::line_bytes,
                                {.lifetime = arena::Lifetime::process, .zero = false})));
    const auto at = [&](std::size_t i) { return reinterpret_cast<double*>(objects_[i].data); };
    arrays_ = {at(0), at(1), at(2), elements};
    return {};
  }
  Arrays arrays() const override { return arrays_; }

  Result<void> run(const Share& share) override {
    const coherence::Memory& memory = writer_.pool->memory();
    if (spec_.promise == Promise::observe) observe(memory, share);
    if (spec_.store == Store::plain) return Target::run(share);
    run_in_blocks(share, [&](double* to, const double* from, std::size_t bytes) {
      memory.publish_bulk(to, from, bytes);
    });
    memory.store_fence();
    return {};
  }

  /// From here on the reader's cache holds the first values: a reader that does not observe keeps
  /// them.
  Result<void> filled() override {
    if (!reader_.pool->memory().loads_may_be_stale()) return {};
    const Errors found = PENSTOCK_TRY(compare(first_values()));
    if (found.small() || spec_.left_out != LeftOut::nothing) return {};
    return fail(ErrorCode::internal, "the reader does not find the first values: {}", found.text());
  }

  Result<Errors> compare(const Values& expected) override {
    const auto error = [&](const arena::Object& object, double value) {
      ErrorSum sum(value);
      add_errors(sum, *reader_.pool, object, arrays_.elements, spec_.left_out != LeftOut::observe);
      return sum.mean();
    };
    return Errors{error(objects_[0], expected.a), error(objects_[1], expected.b),
                  error(objects_[2], expected.c)};
  }

  std::string facts() const override {
    return fmt::format("pool {}, {} mode, read by another attachment on emulated node 1",
                       pool_.spec(), coherence::mode_name(writer_.pool->memory().mode()));
  }

 protected:
  /// Pairs with the observe_bulk of compare(), and with observe() of the threads that read next.
  void seal(const void* at, std::size_t bytes) override {
    if (spec_.left_out == LeftOut::publish || bytes == 0) return;
    writer_.pool->memory().write_back(at, bytes);
    writer_.pool->memory().store_fence();
  }

 private:
  static void observe(const coherence::Memory& memory, const Share& share) {
    if (share.count == 0) return;
    memory.invalidate(share.from + share.first, share.bytes());
    if (share.also != nullptr) memory.invalidate(share.also + share.first, share.bytes());
    memory.load_fence();
  }

  TargetSpec spec_;
  BenchPool pool_;
  Attachment writer_, reader_;
  std::vector<arena::Object> objects_;
  Arrays arrays_;
};

}  // namespace

void add_errors(ErrorSum& sum, const pool::Pool& reader, const arena::Object& object,
                std::uint64_t elements, bool observe) {
  std::vector<double> block(block_elements);
  const auto* const array =
      static_cast<const double*>(reader.at(object.offset, elements * sizeof(double)));
  for (std::uint64_t at = 0; at < elements; at += block_elements) {
    const std::uint64_t count = std::min(block_elements, elements - at);
    if (observe)
      reader.memory().observe_bulk(block.data(), array + at, count * sizeof(double));
    else
      reader.memory().load_bulk(block.data(), array + at, count * sizeof(double));
    sum.add(block.data(), count);
  }
}

Result<BenchPool> prepare_pool(const TargetSpec& spec, std::uint64_t bytes) {
  constexpr std::uint64_t whole = 2 << 20;  // sizes of pools are multiples of it
  const std::uint64_t needed = bytes / 32 * 33 + (32 << 20);
  return BenchPool::prepare(spec.place, (needed + whole - 1) / whole * whole,
                            spec.mode.value_or(coherence::Mode::software));
}

OpenedTarget open_pool(const TargetSpec& spec, std::uint64_t elements) {
  auto pool = prepare_pool(spec, 3 * elements * sizeof(double));
  if (!pool) return unexpected(pool.error());
  auto target = std::make_unique<PoolTarget>(spec, std::move(*pool));
  PENSTOCK_TRY(target->make_arrays(elements));
  return target;
}

Result<std::uint64_t> pool_room(const TargetSpec& spec) {
  if (spec.place.empty()) return std::min(free_memory(), PENSTOCK_TRY(free_in("/dev/shm")));
  if (pool::inspect(spec.place)) {
    const Attachment found = PENSTOCK_TRY(Attachment::open(spec.place, 0));
    return found.arena->stats().bytes_largest_free;
  }
  const auto parts = PENSTOCK_TRY(device::parse_spec(spec.place));
  if (parts[0].kind == device::Part::Kind::devdax)
    return fail(ErrorCode::not_found, "there is no pool on {}: penstock pool create {}", spec.place,
                spec.place);
  const auto slash = parts[0].path.rfind('/');
  return free_in(slash == parts[0].path.npos ? "." : parts[0].path.substr(0, slash + 1));
}

}  // namespace penstock::bench::stream

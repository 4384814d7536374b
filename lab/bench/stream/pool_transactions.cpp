// Objects of a pool that Penstock's transactions change: each thread has an undo log, and its own
// part of each array, because an object has one writer.
#include <unistd.h>

#include <algorithm>

#include "base/format.hpp"
#include "bench/stream/targets.hpp"
#include "persist/undo_log.hpp"

namespace penstock::bench::stream {

namespace {

using persist::UndoLog;

/// The objects that one thread writes.
struct Own {
  Part part;
  arena::Object objects[3];
  std::unique_ptr<UndoLog> log;
};

class TransactionTarget final : public Target {
 public:
  explicit TransactionTarget(BenchPool pool) : pool_(std::move(pool)) {}
  ~TransactionTarget() override {
    for (Own& own : parts_) {
      own.log.reset();
      for (const arena::Object& object : own.objects)
        if (object.bytes != 0) (void)writer_.arena->destroy(object);
    }
  }

  Result<void> make_arrays(std::uint64_t elements, unsigned threads) {
    writer_ = PENSTOCK_TRY(Attachment::open(pool_.spec(), 0));
    reader_ = PENSTOCK_TRY(Attachment::open(pool_.spec(), 1));
    parts_.resize(threads);
    for (unsigned i = 0; i < threads; ++i)
      PENSTOCK_TRY(make_part(i, part_of(elements, i, threads)));
    const auto name = [&](std::size_t array) {
      return reinterpret_cast<double*>(parts_[0].objects[array].data);
    };
    arrays_ = {name(0), name(1), name(2), elements};
    return {};
  }
  Arrays arrays() const override { return arrays_; }

  void fill(Part part) override {
    const double first[] = {1.0, 2.0, 0.0};
    for_parts(part, [&](Own& own, std::uint64_t from, std::uint64_t end) {
      for (std::size_t array = 0; array < 3; ++array)
        for (std::uint64_t j = from; j < end; ++j) data(own, array)[j] = first[array];
    });
  }
  void double_a(Part part) override {
    for_parts(part, [&](Own& own, std::uint64_t from, std::uint64_t end) {
      for (std::uint64_t j = from; j < end; ++j) data(own, 0)[j] *= 2.0;
    });
  }

  Result<void> run(const Share& share) override {
    if (share.count == 0) return {};
    Own& own = *std::find_if(parts_.begin(), parts_.end(),
                             [&](const Own& each) { return each.part.first == share.first; });
    Share local = share;
    local.first = 0;
    local.to = data(own, array_of(share.to));
    local.from = data(own, array_of(share.from));
    if (share.also != nullptr) local.also = data(own, array_of(share.also));
    PENSTOCK_TRY(own.log->begin());
    PENSTOCK_TRY(own.log->add(own.objects[array_of(share.to)], 0, local.bytes()));
    run_plain(local);
    return own.log->commit();
  }

  Result<Errors> compare(const Values& expected) override {
    const auto error = [&](std::size_t array, double value) {
      ErrorSum sum(value);
      for (const Own& own : parts_)
        if (own.part.count != 0) add_errors(sum, *reader_.pool, own.objects[array], own.part.count);
      return sum.mean();
    };
    return Errors{error(0, expected.a), error(1, expected.b), error(2, expected.c)};
  }

  std::string facts() const override {
    const bool kept = writer_.pool->device().durability() != device::Durability::none;
    return fmt::format("pool {}, {} mode; {}", pool_.spec(),
                       coherence::mode_name(writer_.pool->memory().mode()),
                       kept ? "what is committed is at the device"
                            : "memory of this host: what is committed survives processes only");
  }

 private:
  static double* data(const Own& own, std::size_t array) {
    return reinterpret_cast<double*>(own.objects[array].data);
  }
  std::size_t array_of(const double* at) const {
    return at == arrays_.a ? 0 : at == arrays_.b ? 1 : 2;
  }
  Result<void> make_part(unsigned index, Part part) {
    Own& own = parts_[index];
    own.part = part;
    if (part.count == 0) return {};
    const std::uint64_t bytes = (part.count + line_elements - 1) / line_elements * 64;
    for (std::size_t array = 0; array < 3; ++array)
      own.objects[array] = PENSTOCK_TRY(
          writer_.arena->create(fmt::format("stream.{}.{}.{}", getpid(), "abc"[array], index),
                                bytes, {.lifetime = arena::Lifetime::pool, .zero = false}));
    constexpr std::uint64_t headers = 64 << 10;
    own.log = PENSTOCK_TRY(UndoLog::open(*writer_.arena, bytes + headers));
    return {};
  }
  /// Visits the elements of `part` with the thread that writes them, counted from the start of that
  /// thread's objects. Publishes them afterwards.
  template <class Visit>
  void for_parts(Part part, const Visit& visit) {
    for (Own& own : parts_) {
      const std::uint64_t from = std::max(part.first, own.part.first);
      const std::uint64_t end = std::min(part.first + part.count, own.part.first + own.part.count);
      if (from >= end) continue;
      visit(own, from - own.part.first, end - own.part.first);
      for (std::size_t array = 0; array < 3; ++array)
        writer_.pool->memory().write_back(data(own, array) + (from - own.part.first),
                                          (end - from) * sizeof(double));
      writer_.pool->memory().store_fence();
    }
  }

  BenchPool pool_;
  Attachment writer_, reader_;
  std::vector<Own> parts_;
  Arrays arrays_;
};

}  // namespace

OpenedTarget open_pool_transactions(const TargetSpec& spec, std::uint64_t elements,
                                    unsigned threads) {
  // A log as large as an array, and its headers.
  const std::uint64_t bytes = 4 * elements * sizeof(double) + threads * (std::uint64_t{128} << 10);
  auto pool = prepare_pool(spec, bytes);
  if (!pool) return unexpected(pool.error());
  auto target = std::make_unique<TransactionTarget>(std::move(*pool));
  PENSTOCK_TRY(target->make_arrays(elements, threads));
  return target;
}

}  // namespace penstock::bench::stream

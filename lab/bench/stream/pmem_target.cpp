// Objects of libpmemobj, in a file that loses its name once it is made: nothing is left, however
// this process ends. The paper's program left 2.4 GB in its pool at each run (papers/3, section
// 3.5).
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/format.hpp"
#include "bench/stream/libraries.hpp"
#include "bench/stream/targets.hpp"

namespace penstock::bench::stream {

namespace {

constexpr std::uint64_t no_snapshot = 1 << 2;  // POBJ_XADD_NO_SNAPSHOT

/// Does the mapping that holds `at` have MAP_SYNC? smaps shows that by the flag "sf".
bool mapped_synchronously(const void* at) {
  const std::string text = base::read_file("/proc/self/smaps");
  std::string_view left = text;
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  bool inside = false;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    std::uintptr_t first = 0, end = 0;
    const auto dash = line.find('-');
    if (dash != line.npos && dash > 0 && dash <= 16) {
      const auto low = std::from_chars(line.data(), line.data() + dash, first, 16);
      const auto high = std::from_chars(line.data() + dash + 1, line.data() + line.size(), end, 16);
      if (low.ptr == line.data() + dash && high.ec == std::errc())
        inside = first <= address && address < end;
    }
    if (inside && line.starts_with("VmFlags:")) return line.find(" sf") != line.npos;
  }
  return false;
}

/// D_RW(object)[j]: computes the address anew for each element, as pmemobj_direct's inline code
/// does.
class Translated {
 public:
  Translated(const PmemLibrary& library, PmemObject object)
      : library_(library), cache_(library.cache()), object_(object) {}
  double& operator()(std::uint64_t j) const {
    if (*library_.invalidated != cache_.invalidated || cache_.id != object_.pool) look_up();
    return reinterpret_cast<double*>(reinterpret_cast<std::byte*>(cache_.pool) + object_.offset)[j];
  }

 private:
  [[gnu::noinline]] void look_up() const {
    cache_.invalidated = *library_.invalidated;
    cache_.pool = library_.pmemobj_pool_by_oid(object_);
    cache_.id = object_.pool;
  }
  const PmemLibrary& library_;
  volatile PmemPoolCache& cache_;
  PmemObject object_;
};

class PmemTarget final : public Target {
 public:
  PmemTarget(const TargetSpec& spec, const PmemLibrary& library, pmemobjpool* pool,
             std::uint64_t elements)
      : spec_(spec), library_(library), pool_(pool) {
    arrays_.elements = elements;
  }
  ~PmemTarget() override { library_.pmemobj_close(pool_); }

  Result<void> make_arrays() {
    double** const arrays[] = {&arrays_.a, &arrays_.b, &arrays_.c};
    // POBJ_ALLOC aligns to 16 bytes; a line must not have two writers.
    const std::uint64_t bytes = arrays_.elements * sizeof(double) + coherence::line_bytes;
    for (std::size_t i = 0; i < 3; ++i) {
      if (library_.pmemobj_alloc(pool_, &objects_[i], bytes, i + 1, nullptr, nullptr) != 0)
        return fail(ErrorCode::no_space, "libpmemobj has no room for array {}: {}", i + 1,
                    library_.pmemobj_errormsg());
      const auto at = reinterpret_cast<std::uintptr_t>(library_.pmemobj_direct(objects_[i]));
      const std::uintptr_t aligned =
          (at + coherence::line_bytes - 1) / coherence::line_bytes * coherence::line_bytes;
      objects_[i].offset += aligned - at;
      *arrays[i] = reinterpret_cast<double*>(aligned);
    }
    return {};
  }
  Arrays arrays() const override { return arrays_; }

  Result<void> run(const Share& share) override {
    if (share.count == 0) return {};
    if (spec_.promise == Promise::transaction || spec_.promise == Promise::transaction_no_copy)
      return run_transaction(share);
    if (spec_.hoisted) return Target::run(share);
    const Translated to(library_, object_of(share.to)), from(library_, object_of(share.from));
    const Translated also(library_, share.also != nullptr ? object_of(share.also) : PmemObject{});
    run_kernel(share, to, from, also);
    return {};
  }

  std::string facts() const override {
    // libpmemobj chooses by this how to flush.
    const bool synchronous = mapped_synchronously(arrays_.a);
    const bool flushes =
        synchronous || library_.pmem_is_pmem(arrays_.a, arrays_.elements * sizeof(double)) != 0;
    const char* const forced = std::getenv("PMEM_IS_PMEM_FORCE");
    return fmt::format(
        "MAP_SYNC {}; pmem_persist is {}; PMEM_IS_PMEM_FORCE {}{}", synchronous ? "yes" : "no",
        flushes ? "write-back instructions and a fence" : "msync",
        forced == nullptr ? "not set" : fmt::format("= {}", forced),
        library_.pmem_has_auto_flush() == 1 ? "; the platform writes caches back when power fails"
                                            : "");
  }

 protected:
  void seal(const void* at, std::size_t bytes) override {
    if (spec_.promise != Promise::persist || bytes == 0) return;
    library_.pmemobj_flush(pool_, at, bytes);
    library_.pmemobj_drain(pool_);
  }

 private:
  PmemObject object_of(const double* array) const {
    return objects_[array == arrays_.a ? 0 : array == arrays_.b ? 1 : 2];
  }
  Result<void> run_transaction(const Share& share) {
    const std::uint64_t flags = spec_.promise == Promise::transaction ? 0 : no_snapshot;
    int failed = library_.pmemobj_tx_begin(pool_, nullptr, 0);
    if (failed == 0)
      failed = library_.pmemobj_tx_xadd_range_direct(share.written(), share.bytes(), flags);
    if (failed == 0) {
      run_plain(share);
      library_.pmemobj_tx_commit();
    }
    const int ended = library_.pmemobj_tx_end();
    if (failed == 0) failed = ended;
    if (failed == 0) return {};
    return fail(ErrorCode::no_space, "a transaction of libpmemobj failed: {} ({})",
                library_.pmemobj_errormsg(), std::strerror(failed));
  }

  TargetSpec spec_;
  const PmemLibrary& library_;
  pmemobjpool* pool_;
  PmemObject objects_[3];
  Arrays arrays_;
};

}  // namespace

OpenedTarget open_pmem(const TargetSpec& spec, std::uint64_t elements) {
  const PmemLibrary& library = *PENSTOCK_TRY(pmem_library());
  const std::uint64_t arrays = spec.promise == Promise::transaction ? 5 : 3;
  const std::uint64_t bytes =
      arrays * elements * sizeof(double) / 32 * 33 + (std::uint64_t{48} << 20);
  const std::string path = fmt::format("{}/penstock-stream-{}.obj", spec.place, getpid());
  pmemobjpool* const pool = library.pmemobj_create(path.c_str(), "penstock-stream", bytes, 0600);
  if (pool == nullptr)
    return fail(ErrorCode::no_space, "libpmemobj makes no pool of {} in {}: {}",
                base::format_bytes(bytes), spec.place, library.pmemobj_errormsg());
  unlink(path.c_str());
  auto target = std::make_unique<PmemTarget>(spec, library, pool, elements);
  PENSTOCK_TRY(target->make_arrays());
  return target;
}

Result<std::uint64_t> pmem_room(const TargetSpec& spec) {
  PENSTOCK_TRY(pmem_library());
  struct stat status {};
  if (stat(spec.place.c_str(), &status) == 0 && !S_ISDIR(status.st_mode))
    return fail(
        ErrorCode::invalid_argument,
        "{} is not a folder: name one on a file system that is mounted with -o dax; the pool "
        "is made in it, and removed",
        spec.place);
  return free_in(spec.place);
}

}  // namespace penstock::bench::stream

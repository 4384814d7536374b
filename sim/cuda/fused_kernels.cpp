// The kernels of gpu/fused.cu, gpu/flagged.cu and gpu/chunk_run.cu on the stand-in GPU: the same
// code of the rounds, of an element and of chunks, by a block of a few threads of the host.
#include <sched.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstring>

#include "gpu/chunk_run.hpp"
#include "gpu/flagged.hpp"
#include "sim/cuda/kernels.hpp"
#include "sim/cuda/stream.hpp"

namespace penstock::sim::cuda {

namespace {

using gpu::FusedCall;

constexpr std::uint32_t block_threads = 3;  // more than one thread shows missing synchronization

struct Block {
  std::barrier<> barrier{block_threads};
  std::atomic<std::uint32_t> stopped{0};
  alignas(16) std::array<unsigned char, gpu::flagged_staging_bytes> staging;
  std::array<const void*, gpu::FlaggedCall::max_operands> operands;
};

class BlockThread {
 public:
  BlockThread(Block& block, std::uint32_t thread) : block_(block), thread_(thread) {}

  std::uint32_t thread() const { return thread_; }
  std::uint32_t threads() const { return block_threads; }
  std::uint64_t load(const std::uint64_t* word) const {
    return sticky_error() == success ? __atomic_load_n(word, __ATOMIC_ACQUIRE) : ~0ull >> 1;
  }
  void store(std::uint64_t* word, std::uint64_t value) const {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
  }
  void pause() const { sched_yield(); }
  void sync_threads() const { block_.barrier.arrive_and_wait(); }
  bool sync_and(bool goes_on) const {
    if (!goes_on) block_.stopped = 1;
    sync_threads();
    const bool all = block_.stopped == 0;
    sync_threads();  // before one of them stops in a later round
    return all;
  }
  void release_fence() const {}  // each store is a release

  void copy(const FusedCall::Move& move, const void* from, std::uint32_t first) const {
    constexpr std::uint32_t unit = 16;
    for (std::uint32_t at = first * unit; at < move.bytes; at += threads() * unit)
      std::memcpy(static_cast<std::byte*>(move.to) + at, static_cast<const std::byte*>(from) + at,
                  std::min(unit, move.bytes - at));
  }
  template <class Format, class Call>
  void combine(const Call& call, const gpu::Values& values, std::uint32_t first) const {
    gpu::with_arithmetic<Format>(call, [&](const auto& arithmetic) {
      for (std::size_t i = first; i < values.elements; i += threads())
        gpu::combine_one(values, i, arithmetic);
    });
  }

  std::uint64_t peek(const std::uint64_t* word) const { return load(word); }
  void store_unit(gpu::FlaggedUnit* to, const gpu::FlaggedUnit& unit) const {
    for (int i = 0; i < 2; ++i) __atomic_store_n(&to->half[i], unit.half[i], __ATOMIC_RELAXED);
  }
  gpu::FlaggedUnit load_unit(const gpu::FlaggedUnit* from) const {
    gpu::FlaggedUnit unit;
    for (int i = 0; i < 2; ++i) unit.half[i] = __atomic_load_n(&from->half[i], __ATOMIC_RELAXED);
    return unit;
  }
  bool has_arrived(const gpu::FlaggedUnit& unit, std::uint32_t flag) const {
    const bool has = coll::flag_in(unit.half[0]) == flag && coll::flag_in(unit.half[1]) == flag;
    return has || sticky_error() != success;
  }
  bool may_reuse(std::uint64_t told, std::uint64_t wanted) const { return told >= wanted; }
  bool must_clear(std::uint64_t call) const { return coll::clears_block(call); }
  unsigned char* staging() const { return block_.staging.data(); }
  const void** operands() const { return block_.operands.data(); }

 private:
  Block& block_;
  std::uint32_t thread_;
};

template <class Pointed>
bool reach(Pointed*& pointer, std::size_t bytes) {
  pointer = reinterpret_cast<Pointed*>(
      Memory::instance().reach(reinterpret_cast<DevicePointer>(pointer), bytes));
  return pointer != nullptr;
}

bool reach_words(gpu::LaunchWords& words) {
  const bool found = reach(words.done, 8) && reach(words.stops, 8);
  if (words.begins == 0) return found;
  return found && reach(words.epoch, sizeof(gpu::Epoch)) && reach(words.number, 8) &&
         reach(words.begun, 8);
}

/// Replaces the device pointers by host addresses of the bytes. Returns false if one of them is
/// wrong.
bool reach_all(FusedCall& call, std::size_t element_bytes) {
  bool found = reach_words(call);
  if (call.factor_at != nullptr) found = found && reach(call.factor_at, element_bytes);
  for (std::uint32_t i = 0; i < call.words; ++i) found = found && reach(call.word[i].word, 8);
  for (std::uint32_t i = 0; i < call.moves; ++i) {
    FusedCall::Move& move = call.move[i];
    found = found && reach(move.to, move.bytes);
    for (std::uint32_t k = 0; k < move.operands; ++k)
      found = found && reach(call.operand[move.first + k], move.bytes);
  }
  return found;
}

bool reach_all(gpu::FlaggedCall& call, std::size_t element_bytes) {
  bool found = reach_words(call) && reach(call.state, sizeof *call.state) &&
               reach(call.own, std::size_t{call.block_units} * 2 * sizeof *call.own) &&
               reach(call.finished, call.ranks * 8) &&
               reach(call.tells, ((call.ranks - 1) * std::size_t{call.tells_stride} + 1) * 8);
  if (call.factor_at != nullptr) found = found && reach(call.factor_at, element_bytes);
  for (std::uint32_t i = 0; i < call.puts; ++i)
    found = found && reach(call.put[i].from, call.put[i].bytes);
  for (std::uint32_t i = 0; i < call.takes; ++i) {
    gpu::FlaggedCall::Take& take = call.take[i];
    const std::size_t units = call.block_units + coll::units_of(take.bytes);
    found = found && reach(take.from, units * sizeof *take.from) &&
            (take.to == nullptr || reach(take.to, take.bytes));
  }
  for (std::uint32_t i = 0; i < call.moves; ++i) {
    FusedCall::Move& move = call.move[i];
    found = found && reach(move.to, move.bytes);
    for (std::uint32_t k = 0; k < move.operands; ++k) {
      gpu::FlaggedCall::Operand& operand = call.operand[move.first + k];
      found = found && (operand.at == nullptr || reach(operand.at, move.bytes));
    }
  }
  return found;
}

/// `run`: what a thread of the block does.
template <class Run>
void run_block(const Run& run) {
  Block block;
  std::array<std::thread, block_threads - 1> others;
  for (std::uint32_t i = 1; i < block_threads; ++i)
    others[i - 1] = std::thread([&, i] { run(BlockThread(block, i)); });
  run(BlockThread(block, 0));
  for (std::thread& other : others) other.join();
}

template <class Format>
void carry_out(const Grid&, void* const* arguments) {
  FusedCall call = *static_cast<const FusedCall*>(arguments[0]);
  if (!reach_all(call, sizeof(typename Format::Word))) return set_sticky_error(illegal_address);
  run_block([&](const BlockThread& self) {
    gpu::CarryingOut<Format, BlockThread>(call, self).carry_out();
  });
}

template <class Format>
void carry_flagged(const Grid&, void* const* arguments) {
  gpu::FlaggedCall call = *static_cast<const gpu::FlaggedCall*>(arguments[0]);
  if (!reach_all(call, sizeof(typename Format::Word))) return set_sticky_error(illegal_address);
  run_block([&](const BlockThread& self) {
    gpu::CarryingFlagged<Format, BlockThread>(call, self).carry_out();
  });
}

void carry_chunks(const Grid&, void* const* arguments) {
  gpu::ChunkRun run = *static_cast<const gpu::ChunkRun*>(arguments[0]);
  std::vector<gpu::ChunkMove> ring(gpu::ChunkRun::entries);
  bool found =
      reach(run.ring, ring.size() * sizeof ring[0]) && reach(run.go, 8) && reach(run.done, 8);
  for (std::uint64_t k = run.begin; k < run.end && found; ++k) {
    gpu::ChunkMove& chunk = ring[k % ring.size()] = run.ring[k % ring.size()];
    found = reach(chunk.to, chunk.bytes) && reach(chunk.from, chunk.bytes);
  }
  if (!found) return set_sticky_error(illegal_address);
  run.ring = ring.data();
  run_block([&](const BlockThread& self) { gpu::carry_chunks(run, self); });
}

}  // namespace

void add_fused_kernels() {
#define PENSTOCK_COMMA ,
#define PENSTOCK_COMBINE(type, ...)                                               \
  add_kernel("penstock_fused_" #type, sizeof(FusedCall), carry_out<__VA_ARGS__>); \
  add_kernel("penstock_flagged_" #type, sizeof(gpu::FlaggedCall), carry_flagged<__VA_ARGS__>);
#include "gpu/combine_table.inc"
#undef PENSTOCK_COMBINE
  add_kernel("penstock_chunks", sizeof(gpu::ChunkRun), carry_chunks);
}

}  // namespace penstock::sim::cuda

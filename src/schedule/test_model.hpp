// Runs the schedules of all ranks in one thread, for tests. It models slots, doorbells and
// releases, takes each step at a random time, and detects forbidden steps.
#pragma once

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "schedule/schedule.hpp"
#include "schedule/test_calls.hpp"

namespace penstock::coll {

/// A rank's schedule and buffers. In place, `output` is empty and `input` serves as both.
struct ModelRank {
  Schedule schedule;
  std::vector<std::byte> input, output;
  bool in_place = false;
};

class ScheduleModel {
 public:
  static constexpr std::uint32_t word_bytes = test_word;

  /// `slots`: chunks in flight at once, each with a doorbell. `places`: room for their bytes, at
  /// least as many.
  ScheduleModel(std::vector<ModelRank>& ranks, std::uint32_t slots, std::uint64_t slot_bytes,
                std::uint64_t seed, std::uint32_t places = 0)
      : ranks_(ranks),
        slots_(slots),
        places_(std::max(slots, places)),
        slot_bytes_(slot_bytes),
        random_(seed),
        state_(ranks.size()) {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      state_[r].slots.resize(places_);
      state_[r].doorbells.resize(slots);
      state_[r].scratch.resize(ranks[r].schedule.scratch_bytes);
      state_[r].done.resize(ranks[r].schedule.steps.size());
    }
  }

  /// Empty, or the fault. `two_lanes`: the lanes of a rank run side by side, as on a GPU.
  std::string run(bool two_lanes) {
    for (;;) {
      std::vector<std::pair<std::uint32_t, std::size_t>> ready;
      bool unfinished = false;
      for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
        for (const std::size_t step : candidates(r, two_lanes)) {
          unfinished = true;
          if (can(r, ranks_[r].schedule.steps[step])) ready.emplace_back(r, step);
        }
      }
      if (!unfinished) return fault_;
      if (ready.empty()) return "all wait for each other";
      const auto [rank, step] = ready[random_() % ready.size()];
      take(rank, ranks_[rank].schedule.steps[step]);
      state_[rank].done[step] = true;
      if (!fault_.empty()) return fmt::format("rank {}, step {}: {}", rank, step, fault_);
    }
  }

 private:
  struct Slot {
    std::uint64_t chunk = ~0ull;
    std::vector<std::byte> bytes;
    std::vector<bool> written;
  };
  struct State {
    std::vector<Slot> slots;
    std::vector<std::uint64_t> doorbells;
    std::vector<std::byte> scratch;
    std::vector<bool> done;
    std::map<std::uint32_t, std::uint64_t> released;  ///< by producer
  };

  /// The first step that is not done; one for each lane if they run side by side.
  std::vector<std::size_t> candidates(std::uint32_t r, bool two_lanes) const {
    const auto& steps = ranks_[r].schedule.steps;
    std::vector<std::size_t> found;
    bool seen[2] = {};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (state_[r].done[i]) continue;
      bool& lane_seen = seen[static_cast<std::size_t>(steps[i].lane)];
      const bool free =
          steps[i].after < 0 || state_[r].done[static_cast<std::size_t>(steps[i].after)];
      if (!lane_seen && free) found.push_back(i);
      lane_seen = true;
      if (!two_lanes || (seen[0] && seen[1])) break;
    }
    // A lane that waits for the other is no candidate, but the rank is not done either.
    if (found.empty() && (seen[0] || seen[1])) found.push_back(steps.size());
    return found;
  }
  bool can(std::uint32_t r, const Step& step) {
    if (&step == ranks_[r].schedule.steps.data() + ranks_[r].schedule.steps.size()) return false;
    // Check for equality: the producer must not ring again for the slot before this rank has
    // released the chunk.
    if (step.kind == StepKind::wait)
      return state_[step.rank].doorbells[step.chunk % slots_] == step.chunk + 1;
    if (step.kind == StepKind::await_release)
      return state_[step.rank].released[r] >= step.chunk + 1;
    return true;
  }
  std::byte* at(std::uint32_t r, const Span& span) {
    ModelRank& rank = ranks_[r];
    std::vector<std::byte>* memory = &state_[r].scratch;
    if (span.buffer == Buffer::input) memory = &rank.input;
    if (span.buffer == Buffer::output) memory = rank.in_place ? &rank.input : &rank.output;
    if (span.offset + span.bytes > memory->size()) {
      fault_ = fmt::format("bytes {} to {} of a buffer of {}", span.offset,
                           span.offset + span.bytes, memory->size());
      return nullptr;
    }
    return memory->data() + span.offset;
  }
  const std::byte* at(std::uint32_t producer, std::uint64_t chunk, std::uint64_t offset,
                      std::uint64_t bytes) {
    const Slot& slot = state_[producer].slots[chunk % places_];
    if (slot.chunk != chunk || state_[producer].doorbells[chunk % slots_] != chunk + 1) {
      fault_ = fmt::format("reads chunk {} of rank {}, where chunk {} lies", chunk, producer,
                           slot.chunk);
      return nullptr;
    }
    for (std::uint64_t i = offset; i < offset + bytes; ++i) {
      if (i < slot.bytes.size() && slot.written[i]) continue;
      fault_ = fmt::format("reads byte {} of chunk {} of rank {}, which was not published", i,
                           chunk, producer);
      return nullptr;
    }
    return slot.bytes.data() + offset;
  }
  void take(std::uint32_t r, const Step& step) {
    switch (step.kind) {
      case StepKind::publish:
        return publish(r, step);
      case StepKind::ring:
        return ring(r, step);
      case StepKind::copy: {
        const std::byte* from = at(step.rank, step.chunk, step.at, step.span.bytes);
        std::byte* to = at(r, step.span);
        if (from != nullptr && to != nullptr) std::memcpy(to, from, step.span.bytes);
        return;
      }
      case StepKind::move: {
        const std::byte* from = at(r, step.from);
        std::byte* to = at(r, step.span);
        if (from != nullptr && to != nullptr) std::memmove(to, from, step.span.bytes);
        return;
      }
      case StepKind::combine:
        return combine(r, step);
      case StepKind::release:
        return release(r, step);
      default:
        return;
    }
  }
  void release(std::uint32_t r, const Step& step) {
    std::uint64_t& released = state_[r].released[step.rank];
    if (released > step.chunk) fault_ = "releases backwards";
    released = step.chunk + 1;
  }
  Slot& slot_for(std::uint32_t r, std::uint64_t chunk) {
    Slot& slot = state_[r].slots[chunk % places_];
    if (slot.chunk == chunk) return slot;
    slot.chunk = chunk;
    slot.bytes.assign(slot_bytes_, std::byte{0xee});
    slot.written.assign(slot_bytes_, false);
    return slot;
  }
  void publish(std::uint32_t r, const Step& step) {
    Slot& slot = slot_for(r, step.chunk);
    const std::byte* from = at(r, step.span);
    if (from == nullptr) return;
    if (step.at + step.span.bytes > slot_bytes_) {
      fault_ = fmt::format("publishes behind the end of a slot: {} and {} bytes", step.at,
                           step.span.bytes);
      return;
    }
    std::memcpy(slot.bytes.data() + step.at, from, step.span.bytes);
    for (std::uint64_t i = 0; i < step.span.bytes; ++i) slot.written[step.at + i] = true;
  }
  void ring(std::uint32_t r, const Step& step) {
    slot_for(r, step.chunk);
    std::uint64_t& doorbell = state_[r].doorbells[step.chunk % slots_];
    if (doorbell > step.chunk) fault_ = "rings backwards";
    doorbell = step.chunk + 1;
  }
  /// Not commutative, so a wrong order of operands shows.
  void combine(std::uint32_t r, const Step& step) {
    std::vector<std::uint32_t> words(step.span.bytes / word_bytes);
    for (std::uint32_t i = 0; i < step.operand_count; ++i) {
      const Operand& operand = ranks_[r].schedule.operands[step.first_operand + i];
      const std::byte* from = operand.own
                                  ? at(r, operand.span)
                                  : at(operand.rank, operand.chunk, operand.at, step.span.bytes);
      if (from == nullptr) return;
      for (std::size_t w = 0; w < words.size(); ++w) {
        std::uint32_t value;
        std::memcpy(&value, from + w * word_bytes, word_bytes);
        words[w] = i == 0 ? value : WordArithmetic::combined(words[w], value);
      }
    }
    std::byte* to = at(r, step.span);
    if (to != nullptr) std::memcpy(to, words.data(), step.span.bytes);
  }

  std::vector<ModelRank>& ranks_;
  const std::uint32_t slots_, places_;
  const std::uint64_t slot_bytes_;
  std::mt19937_64 random_;
  std::vector<State> state_;
  std::string fault_;
};

}  // namespace penstock::coll

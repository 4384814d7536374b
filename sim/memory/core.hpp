// One thread's access to its node's view: stores past the cache and write-backs wait in a buffer
// and leave it in any order that fences allow; invalidations take effect at `load_fence` at the
// latest. Implements coherence::Ops, so production protocols run on it unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coherence/coherence.hpp"
#include "sim/memory/choice_source.hpp"
#include "sim/memory/fault_model.hpp"
#include "sim/memory/node_view.hpp"
#include "sim/memory/store_buffer.hpp"

namespace penstock::sim {

class Core;

/// Events, for traces and for the scheduler.
enum class Event : std::uint8_t {
  publish,
  write_back,
  store_fence,
  full_fence,
  invalidate,
  load_fence,
  load,
  deliver,
  send,
  drop,
  prefetch,
};
const char* event_name(Event event);

/// Is told of every operation before it is done, and of spontaneous events of the memory.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual void step(Core& core) = 0;
  virtual void happened(Core& core, Event event, std::uint64_t line, std::uint64_t word) = 0;
};

class Core {
 public:
  Core(NodeView& view, ChoiceSource& choices, const FaultModel& faults, Machine& machine)
      : view_(view), choices_(choices), faults_(faults), machine_(machine) {}

  NodeView& view() { return view_; }

  void publish(std::byte* to, const void* from, std::uint64_t bytes, bool tail_undefined);
  /// The eighth word never arrives before the others.
  void publish_line(std::uint64_t line, const Line& data, bool tagged = false);
  /// As publish_line, or as a plain store that is written back later: dirty in between.
  void send_line(std::uint64_t line, const Line& data, bool tagged = false);
  void publish_word(std::byte* to, std::uint64_t value);
  void publish_bytes(std::byte* to, const void* from, std::uint64_t bytes);
  void write_back(const std::byte* at, std::uint64_t bytes);
  void store_fence();
  void full_fence();
  void invalidate(const std::byte* at, std::uint64_t bytes);
  void fetch(const std::byte* at, std::uint64_t bytes);
  void load_fence();
  std::uint64_t load_word(const std::byte* from);
  /// Loads the eighth word first.
  Line load_line(std::uint64_t line);
  void load(void* to, const std::byte* from, std::uint64_t bytes);

  std::uint64_t line_of(const void* at, std::uint64_t bytes) const;
  /// Lines that were invalidated, so that the next load of each reads the device.
  std::uint64_t device_reads() const { return device_reads_; }
  /// Lines that were published, in whole or in part.
  std::uint64_t device_writes() const { return device_writes_; }
  /// Serialized accesses: fences at which lines are on their way from or to the device.
  std::uint64_t device_waits() const { return device_waits_; }

  // spontaneous events of the memory
  bool buffered() const { return !buffer_.empty(); }
  /// `flag` is 1 while something is buffered, else 0; for a caller that looks at thousands of
  /// cores.
  void show_buffered(std::uint8_t* flag) { flag_ = flag; }
  /// Sends one of the stores that may leave now.
  void deliver_one();
  void drain();
  /// The thread signals other threads of its process through coherent memory: its ordered stores
  /// are at the device before any store that those publish from then on.
  void hand_over();
  /// Some line may be evicted or fetched. Part of every operation of this thread.
  void background_event();
  /// Sends stores that are due, and perhaps others. `now`: steps of the world.
  void pass_time(std::uint64_t now);
  /// The process was killed: all that it had executed still arrives.
  void killed();
  /// The node lost its power: some of its buffered stores arrive, the rest never do.
  void lost();

 private:
  static constexpr std::uint8_t last_word = 0x80;

  void buffer(Event kind, std::uint64_t line, const Line& data, std::uint8_t words, bool after_line,
              std::uint64_t spared = 0);
  void publish_part(std::byte* to, std::uint64_t value, std::uint64_t spared);
  void buffer_torn(std::uint64_t line, const Line& data, std::uint8_t words);
  void show() const {
    if (flag_ != nullptr) *flag_ = buffered() ? 1 : 0;
  }
  void wait_for_device(std::uint64_t& fenced, std::uint64_t lines) {
    if (fenced != lines) ++device_waits_;
    fenced = lines;
  }
  std::uint32_t leaving_epoch() const;
  bool passes_no_store(std::size_t index) const;
  bool leaves_by_itself() const;
  void leave(std::size_t index);
  void drop(std::uint64_t line);
  void fetch(std::uint64_t line);
  void touch(std::uint64_t line);
  std::uint64_t own(const Line& seen, std::uint64_t line, std::uint32_t word) const;

  NodeView& view_;
  ChoiceSource& choices_;
  const FaultModel& faults_;
  Machine& machine_;
  StoreBuffer buffer_;
  std::uint8_t* flag_ = nullptr;
  std::vector<std::uint64_t> dropping_;
  std::uint32_t epoch_ = 0;
  std::uint64_t now_ = 0;  ///< the time that it was last given
  std::uint64_t device_reads_ = 0, device_writes_ = 0, device_waits_ = 0;
  std::uint64_t reads_fenced_ = 0, writes_fenced_ = 0;  ///< counts at the latest fences
  std::uint64_t last_op_ = 0;                           ///< number of the last publish
  static constexpr std::size_t recent_count = 16;
  std::uint64_t recent_[recent_count] = {};
  std::size_t recent_used_ = 0, recent_next_ = 0;
};

/// Operations whose `self` is what `current_core` expects.
using CurrentCore = Core& (*)(void* self);
const coherence::Ops& simulated_ops();
/// Sets how operations find the core of the running thread. Called once, by the world.
void set_current_core(CurrentCore finder);

}  // namespace penstock::sim

// The only way to touch pool memory. The operations are bound once, when the pool is mapped;
// protocols above are written against Memory and never flush, fence or dereference by themselves.
// Source: docs/memory-model.md, "Modes" and "Rules"; cMPI, section 3.5.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "coherence/site.hpp"

namespace penstock::coherence {

inline constexpr std::size_t line_bytes = 64;
/// Payload bytes of a tagged line: the last 8 bytes hold its tag.
inline constexpr std::size_t tagged_bytes = 56;

enum class Mode : std::uint32_t {
  hardware = 1,   ///< caches are coherent between all attached processes
  software = 2,   ///< no coherence between nodes: flush, fence, invalidate
  uncached = 3,   ///< the mapping itself is uncacheable
  simulated = 4,  ///< a model of a pool without coherence
};

const char* mode_name(Mode mode);
Result<Mode> parse_mode(std::string_view text);
/// The mode that PENSTOCK_MODE names, if it is set.
Result<std::optional<Mode>> mode_from_environment();

/// Operations of one mode. `self` is what Memory was bound with (the model in the simulated mode).
///
/// Publishes may reach the device in any order, and late. `store_fence()`: earlier publishes reach
/// the device before later ones, and none stays buffered. When one thread publishes a word twice
/// the later value stays, also without `store_fence`; when two threads do, either may. Loads may
/// return any older copy that this node holds unless the line was invalidated and load-fenced
/// first.
struct Ops {
  /// One naturally aligned 8-byte word by a partial non-temporal store: never dirties the line,
  /// so that other writers' words of a packed line survive (rule 5).
  void (*publish_word)(void* self, void* to, std::uint64_t value);
  /// 1 to 8 bytes inside one naturally aligned word, in the same way: the other bytes of the line
  /// are neither read nor written.
  void (*publish_bytes)(void* self, void* to, const void* from, std::size_t bytes);
  /// One 64-byte line, which arrives whole or, without wide stores, with its last word last. At no
  /// instant is it dirty in a cache: a process that is killed within the call leaves no dirty line.
  void (*publish_line)(void* self, void* to, const void* from);
  /// As publish_line, in the quickest way: a process that is killed within the call may leave the
  /// line dirty in its node's caches. Only for lines that no other node writes before these were
  /// flushed: of objects (docs/protocols/quarantine.md), or of one node for ever.
  void (*send_line)(void* self, void* to, const void* from);
  /// `bytes` of payload; `to` is 64-byte aligned, the tail of the last line is left undefined.
  void (*publish_bulk)(void* self, void* to, const void* from, std::size_t bytes);
  /// Payload in tagged lines of 56 bytes; every line ends with `first_tag`, `first_tag`+1, ...
  /// Lines may be left dirty as by send_line.
  void (*publish_tagged)(void* self, void* to, const void* from, std::size_t bytes,
                         std::uint64_t first_tag);
  /// As send_line and publish_tagged, for many lines that follow each other: costs the sender the
  /// least time, whereas a single line may arrive later.
  void (*stream_line)(void* self, void* to, const void* from);
  void (*stream_tagged)(void* self, void* to, const void* from, std::size_t bytes,
                        std::uint64_t first_tag);
  /// Writes back lines that this node stored to by plain stores; does not invalidate them.
  void (*write_back)(void* self, const void* at, std::size_t bytes);
  /// Earlier publishes reach the device before later ones.
  void (*store_fence)(void* self);
  /// Drops this node's cached copies of the lines, after a write-back where they are dirty. It
  /// takes effect at the next `load_fence`: after that none is left in this node's caches.
  void (*invalidate)(void* self, const void* at, std::size_t bytes);
  /// A prefetch hint: these lines are loaded soon, so copies may be taken now. A no-op where every
  /// load is fresh.
  void (*fetch)(void* self, const void* at, std::size_t bytes);
  /// Loads after it see each line as the device had it when it was invalidated, or later.
  void (*load_fence)(void* self);
  std::uint64_t (*load_word)(void* self, const void* from);
  /// Copies 64 bytes, the last word first: if that one is new, so is the rest.
  void (*load_line)(void* self, void* to, const void* from);
  void (*load_bulk)(void* self, void* to, const void* from, std::size_t bytes);
  /// Copies the payload of tagged lines up to the first whose tag differs; returns the number of
  /// payload bytes copied from lines that matched (== bytes when all did).
  std::size_t (*load_tagged)(void* self, void* to, const void* from, std::size_t bytes,
                             std::uint64_t first_tag);
  /// As `store_fence`, and loads after it are made only when all publishes before it are at the
  /// device: locks made of loads and stores need it between publishing their own line and reading
  /// the others'. In hardware mode neither `store_fence` nor `load_fence` gives this.
  void (*full_fence)(void* self);
  /// Lines that this process (one that is simulated: this thread) has made its loads read from the
  /// device: those it invalidated, or loaded where nothing is cached. About, if threads count at
  /// once.
  std::uint64_t (*device_reads)(void* self);
};

/// A bound set of operations; cheap to copy. Thread-safe as far as the lines it touches are.
class Memory {
 public:
  Memory() = default;
  Memory(Mode mode, const Ops* ops, void* self) : ops_(ops), self_(self), mode_(mode) {}

  Mode mode() const { return mode_; }
  /// False where a load always sees the latest publish, so that polling costs no invalidation.
  bool loads_may_be_stale() const {
    return !intra_node_ && (mode_ == Mode::software || mode_ == Mode::simulated);
  }
  /// For lines that only processes of one node publish and load: the node's caches are coherent, so
  /// no line is invalidated before a load, and no store is written back. Publishes still go to the
  /// device: no line stays dirty in a cache when the memory gets its next owner.
  Memory intra_node() const {
    Memory same = *this;
    same.intra_node_ = mode_ == Mode::software || mode_ == Mode::simulated;
    return same;
  }

  void publish_word(void* to, std::uint64_t value, Site site = Site::here()) const {
    if (weakened(Weakening::publish, site)) return keep_dirty(to, &value, sizeof value);
    ops_->publish_word(self_, to, value);
  }
  void publish_bytes(void* to, const void* from, std::size_t bytes,
                     Site site = Site::here()) const {
    if (weakened(Weakening::publish, site)) return keep_dirty(to, from, bytes);
    ops_->publish_bytes(self_, to, from, bytes);
  }
  void publish_line(void* to, const void* from, Site site = Site::here()) const {
    if (weakened(Weakening::publish, site)) return keep_dirty(to, from, line_bytes);
    ops_->publish_line(self_, to, from);
  }
  void send_line(void* to, const void* from, Site site = Site::here()) const {
    if (weakened(Weakening::publish, site)) return keep_dirty(to, from, line_bytes);
    ops_->send_line(self_, to, from);
  }
  void publish_bulk(void* to, const void* from, std::size_t bytes, Site site = Site::here()) const {
    if (weakened(Weakening::publish, site)) return keep_dirty(to, from, bytes);
    ops_->publish_bulk(self_, to, from, bytes);
  }
  void publish_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t line_tag,
                      Site site = Site::here()) const {
    if (weakened(Weakening::publish, site)) return;
    ops_->publish_tagged(self_, to, from, bytes, line_tag);
  }
  void stream_line(void* to, const void* from, Site site = Site::here()) const {
    if (weakened(Weakening::publish, site)) return keep_dirty(to, from, line_bytes);
    ops_->stream_line(self_, to, from);
  }
  void stream_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t line_tag,
                     Site site = Site::here()) const {
    if (weakened(Weakening::publish, site)) return;
    ops_->stream_tagged(self_, to, from, bytes, line_tag);
  }
  void write_back(const void* at, std::size_t bytes, Site site = Site::here()) const {
    if (intra_node_) return;
    if (weakened(Weakening::write_back, site)) return;
    ops_->write_back(self_, at, bytes);
  }
  void store_fence(Site site = Site::here()) const {
    if (weakened(Weakening::store_fence, site)) return;
    ops_->store_fence(self_);
  }
  void full_fence(Site site = Site::here()) const {
    if (weakened(Weakening::full_fence, site)) return ops_->store_fence(self_);
    ops_->full_fence(self_);
  }
  void invalidate(const void* at, std::size_t bytes, Site site = Site::here()) const {
    if (intra_node_) return;
    if (weakened(Weakening::invalidate, site)) return;
    ops_->invalidate(self_, at, bytes);
  }
  void load_fence(Site site = Site::here()) const {
    if (intra_node_) return std::atomic_thread_fence(std::memory_order_acquire);
    if (weakened(Weakening::load_fence, site)) return;
    ops_->load_fence(self_);
  }
  void fetch(const void* at, std::size_t bytes) const {
    if (loads_may_be_stale()) ops_->fetch(self_, at, bytes);
  }
  std::uint64_t load_word(const void* from) const { return ops_->load_word(self_, from); }
  void load_line(void* to, const void* from) const { ops_->load_line(self_, to, from); }
  void load_bulk(void* to, const void* from, std::size_t bytes) const {
    ops_->load_bulk(self_, to, from, bytes);
  }
  std::size_t load_tagged(void* to, const void* from, std::size_t bytes,
                          std::uint64_t line_tag) const {
    return ops_->load_tagged(self_, to, from, bytes, line_tag);
  }

  /// Invalidate, load_fence, load: one serialized device access.
  std::uint64_t observe_word(const void* from, Site site = Site::here()) const {
    invalidate(from, 8, site);
    load_fence(site);
    return load_word(from);
  }
  void observe_line(void* to, const void* from, Site site = Site::here()) const {
    invalidate(from, line_bytes, site);
    load_fence(site);
    load_line(to, from);
  }
  void observe_bulk(void* to, const void* from, std::size_t bytes, Site site = Site::here()) const {
    invalidate(from, bytes, site);
    load_fence(site);
    load_bulk(to, from, bytes);
  }

  /// See Ops::device_reads. Does not grow in hardware mode.
  std::uint64_t device_reads() const { return ops_->device_reads(self_); }

 private:
  /// A plain store that nothing writes back: the effect of a weakened publish.
  void keep_dirty(void* to, const void* from, std::size_t bytes) const {
    __builtin_memcpy(to, from, bytes);
  }

  const Ops* ops_ = nullptr;
  void* self_ = nullptr;
  Mode mode_ = Mode::hardware;
  bool intra_node_ = false;
};

/// The instruction that writes dirty lines back; `automatic` takes PENSTOCK_FLUSH, or the CPU's
/// fastest way. For measurement (cMPI figure 11) and for devices that need another one than the
/// default.
enum class FlushChoice { automatic, clflush, clflushopt, clwb };

/// Binds the operations of `mode` for this CPU. Errors: `simulated` (needs a PoolMapping, see
/// view()), or a flush instruction that this CPU lacks.
Result<Memory> bind(Mode mode, FlushChoice flush = FlushChoice::automatic);

/// A pool, or the beginning of a part of one, as this process has mapped it.
struct PoolMapping {
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  std::string path;           ///< of the first part
  std::uint64_t pool_id = 0;  ///< 0: not known yet, only the superblock is touched
  std::uint32_t node = 0;     ///< the process's node: emulated nodes count from 1, 0 is the host
  bool observer = false;      ///< only reads
};

/// How a process accesses a pool: operations, and the addresses for them and for the user.
struct View {
  Memory memory;
  std::byte* base = nullptr;  ///< PoolMapping::base, or in the simulated mode the node's view of it
  std::shared_ptr<void> keep;  ///< owns the memory of the view
};

/// As bind(), for a mapped pool. Errors: those of bind(); unavailable where the program has no
/// simulator.
Result<View> view(Mode mode, const PoolMapping& place, FlushChoice flush = FlushChoice::automatic);
/// For a superblock, before its mode is known: software mode's operations are right in all modes.
Result<View> cautious_view(const PoolMapping& place);

/// Memory without coherence, for tests and for the simulated mode. A program has at most one; it
/// registers itself when it is linked in.
class Simulator {
 public:
  virtual ~Simulator() = default;
  virtual Result<View> view(const PoolMapping& place) = 0;
  /// True when it simulates all memory, also before a pool's mode is known.
  virtual bool stands_for_all() const = 0;
};
void use_simulator(Simulator* simulator);
/// True when one is linked in: builds with PENSTOCK_SIMULATOR have one, installed ones usually not.
bool has_simulator();

}  // namespace penstock::coherence

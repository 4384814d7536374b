// Where switches and communicators of a pool find each other: the object "penstock.switch", which
// stays in the pool once a switch has served it. For p processes:
//
//   header     1 line         by who makes the object first, under the pool's lock
//   claims     8 lines        claim 0: by the switch, or the spine; claim 1 + i: by leaf i
//   asks       p lines        line s: by the process in slot s; a word for each of 8 regions
//   answers    8 p lines      row c: by the switch of claim c; as the asks
//
// An ask is `line of the region | count | 0`: the count makes each a new one. The answer is the ask
// with a code in its lowest bits. Region 0 withdraws what was asked before. Words are published
// alone (publish_word), so that no line of the dead is left dirty; lines of claims are whole and
// checked. In words: docs/protocols/switch.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arena/arena.hpp"
#include "offload/region.hpp"

namespace penstock::offload {

inline constexpr std::uint32_t max_claims = 1 + max_leaves;
inline constexpr std::uint32_t asks_of_a_process = 8;

/// What a process that plays a switch is.
struct Role {
  std::uint32_t number = 0;  ///< 0: the switch or spine; 1 + leaf
  std::uint32_t leaves = 0;  ///< of the spine: how many it has; of a leaf: the same
  bool operator==(const Role&) const = default;
};
/// "switch", "spine of 2 leaves", "leaf 0 of 2".
std::string text_of(const Role& role);

struct Claim {
  std::uint64_t token = 0;  ///< of the switch's process; 0: nobody
  std::uint32_t version = 0;
  std::uint32_t leaves = 0;
};

enum class Answer : std::uint8_t {
  none = 0,
  served = 1,
  refused = 2,  ///< what is asked for is no region of a living process with a job
  no_room = 3,  ///< the switch could not join the job
  gone = 4,     ///< it has let go of what was there: nothing more is stored there
};

/// A word of the asks: `region / 64 << 16 | count << 4`.
struct Ask {
  std::uint64_t word = 0;
  static Ask of(std::uint64_t region, std::uint64_t count) {
    return {region / coherence::line_bytes << 16 | (count % 0xfff + 1) << 4};
  }
  /// Else nobody has asked there.
  bool is_one() const { return count() != 0 && (word & 0xf) == 0; }
  std::uint64_t region() const { return (word >> 16) * coherence::line_bytes; }
  std::uint64_t count() const { return word >> 4 & 0xfff; }
  std::uint64_t answered(Answer answer) const { return word | static_cast<std::uint64_t>(answer); }
};

class Directory {
 public:
  /// Nullopt: no switch was ever here. Errors: wrong_format, mismatch: one of another version.
  static Result<std::optional<Directory>> find(arena::Arena& arena);
  /// Makes it where there is none.
  static Result<Directory> find_or_make(arena::Arena& arena);

  std::uint32_t processes() const { return processes_; }
  const arena::Object& object() const { return object_; }

  /// Nullopt: it is damaged. A device access.
  std::optional<Claim> claim(std::uint32_t number) const;
  /// Under the pool's lock. At the device when that is released.
  void publish_claim(std::uint32_t number, const Claim& claim) const;

  std::uint64_t ask_line(std::uint32_t slot) const { return at(first_ask + slot); }
  std::uint64_t answer_line(std::uint32_t number, std::uint32_t slot) const {
    return at(first_ask + (1 + number) * std::uint64_t{processes_} + slot);
  }
  pool::Pool& pool() const { return *pool_; }

 private:
  static constexpr std::uint64_t first_claim = 1, first_ask = first_claim + max_claims;
  Directory(pool::Pool& pool, arena::Object object, std::uint32_t processes)
      : pool_(&pool), object_(std::move(object)), processes_(processes) {}
  static Result<Directory> checked(pool::Pool& pool, const arena::Object& object);
  static std::uint64_t bytes_for(std::uint32_t processes) {
    return (first_ask + (1 + max_claims) * std::uint64_t{processes}) * coherence::line_bytes;
  }
  std::uint64_t at(std::uint64_t line) const {
    return object_.offset + line * coherence::line_bytes;
  }

  pool::Pool* pool_;
  arena::Object object_;
  std::uint32_t processes_;
};

/// Takes the claim for this process. Errors: already_exists, which names the living switch that has
/// it; mismatch, one of another version; invalid_argument, a role that does not fit those that live
/// (a leaf of 2 where the spine has 3).
Result<void> take_claim(const Directory& directory, const Role& role);
/// By who has it, now and then: a switch that was stopped for longer than a lease at its very store
/// of a claim overwrites its successor's as it goes on, before it ends; so may a stranger. Then it
/// is taken anew. Errors: those of take_claim(), where another that lives has it by now; deadline,
/// where the pool's lock is held for long. Then this process has no claim.
Result<void> keep_claim(const Directory& directory, const Role& role);
/// In order, at its end.
Result<void> give_claim_back(const Directory& directory, const Role& role);

/// The switches that serve the pool's new communicators: a living one that has claim 0, and all its
/// leaves. Nullopt: none. Errors: those of Directory::find(); mismatch; unavailable, which names a
/// leaf that is not there.
struct Serving {
  Directory directory;
  std::vector<std::uint64_t> tokens;  ///< of the switch or spine, then of the leaves
};
Result<std::optional<Serving>> serving(arena::Arena& arena);

}  // namespace penstock::offload

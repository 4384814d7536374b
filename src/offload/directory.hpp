// Where the switches and communicators of a pool find each other: the object "penstock.switch",
// which stays in the pool once a switch has served it. For p processes:
//
//   header     1 line         written by the process that makes the object, under the pool's lock
//   claims     8 lines        claim 0: by the switch, or the spine; claim 1 + i: by leaf i
//   asks       p lines        line s: by the process in slot s; a word for each of 8 regions
//   answers    8 p lines      row c: by the switch of claim c; words as in the asks
//
// An ask is `line of the region | count | 0`; its count distinguishes it from earlier ones. The
// answer is the ask with a code in its lowest bits. An ask of region 0 withdraws the previous one.
// Words are published alone (publish_word), so that no line of a dead process stays dirty; lines of
// claims are whole and checked. In words: docs/protocols/switch.md.
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

/// The role of a process that plays a switch.
struct Role {
  std::uint32_t number = 0;  ///< 0: the switch or spine; 1 + leaf
  std::uint32_t leaves = 0;  ///< how many leaves the spine has; the same number in each leaf
  bool operator==(const Role&) const = default;
};
/// "switch", "spine of 2 leaves", "leaf 0 of 2".
std::string text_of(const Role& role);

struct Claim {
  std::uint64_t token = 0;  ///< token of the switch's process; 0: none
  std::uint32_t version = 0;
  std::uint32_t leaves = 0;
};

enum class Answer : std::uint8_t {
  none = 0,
  served = 1,
  refused = 2,  ///< the region asked for does not belong to a living process with a job
  no_room = 3,  ///< the switch could not join the job
  gone = 4,     ///< the switch has let go of the region and stores nothing more to it
};

/// A word of the asks: `region / 64 << 16 | count << 4`.
struct Ask {
  std::uint64_t word = 0;
  static Ask of(std::uint64_t region, std::uint64_t count) {
    return {region / coherence::line_bytes << 16 | (count % 0xfff + 1) << 4};
  }
  /// False if no process has asked there.
  bool is_one() const { return count() != 0 && (word & 0xf) == 0; }
  std::uint64_t region() const { return (word >> 16) * coherence::line_bytes; }
  std::uint64_t count() const { return word >> 4 & 0xfff; }
  std::uint64_t answered(Answer answer) const { return word | static_cast<std::uint64_t>(answer); }
};

class Directory {
 public:
  /// Returns nullopt if the pool never had a switch. Errors: wrong_format; mismatch (of another
  /// version).
  static Result<std::optional<Directory>> find(arena::Arena& arena);
  /// Finds the directory, or makes it.
  static Result<Directory> find_or_make(arena::Arena& arena);

  std::uint32_t processes() const { return processes_; }
  const arena::Object& object() const { return object_; }

  /// Returns nullopt if the claim is damaged. One device access.
  std::optional<Claim> claim(std::uint32_t number) const;
  /// Under the pool's lock. The claim is at the device once the lock is released.
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

/// Takes the claim for this process. Errors: already_exists, which names the living switch that
/// holds it; mismatch, for a switch of another version; invalid_argument, if the role does not fit
/// the living switches (a leaf of 2 while the spine has 3).
Result<void> take_claim(const Directory& directory, const Role& role);
/// Checks this process's claim, and takes it anew if it was overwritten; its holder calls it now
/// and then. A foreign process may have overwritten it, or a switch that was stopped in the middle
/// of its store of a claim for longer than a lease, and finished that store over its successor's.
/// On an error this process has no claim. Errors: those of take_claim() if another living switch
/// holds it by now; deadline if the pool's lock is held for long.
Result<void> keep_claim(const Directory& directory, const Role& role);
/// Gives the claim back at an orderly end.
Result<void> give_claim_back(const Directory& directory, const Role& role);

/// The switches that serve the pool's new communicators: a living one that holds claim 0, and all
/// its leaves. Nullopt: there are none. Errors: those of Directory::find(); mismatch; unavailable,
/// which names a missing leaf.
struct Serving {
  Directory directory;
  std::vector<std::uint64_t> tokens;  ///< token of the switch or spine, then those of the leaves
};
Result<std::optional<Serving>> serving(arena::Arena& arena);

}  // namespace penstock::offload

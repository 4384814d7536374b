// The counts of a litmus test of a pool's memory, and the verdict drawn from them.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::litmus {

/// How a line passes from the side that writes it to the side that holds an older copy of it.
enum class Trial : std::uint32_t {
  plain,         ///< plain stores, plain loads
  written_back,  ///< plain stores and a write-back, plain loads
  dropped,       ///< plain stores; invalidated before the load
  both,          ///< plain stores and a write-back; invalidated before the load
  published,     ///< publish_line, observe_line: as in software mode
  words,         ///< both sides publish words of the line at once (rule 5 of the memory model)
  stream,        ///< published again and again while the other side looks
  bulk,          ///< publish_bulk, then a flag; observe_bulk: the payload of large messages
  tagged,        ///< publish_tagged while the other side looks for the sequence tags, and the flag
  intra_node,    ///< publish_bulk, then a flag; plain loads: for peers on one node
  announced,     ///< both announce themselves, full_fence, and look for the other: as locks do
};
inline constexpr std::uint32_t trial_count = 11;
const char* trial_name(Trial trial);

/// Observations of the reader: in `stream` looks, else rounds.
struct Counts {
  std::uint64_t right = 0;  ///< the values written, whole
  std::uint64_t stale = 0;  ///< old values; in `words` in at least one word; in `announced` neither
                            ///< side saw the other
  std::uint64_t torn = 0;   ///< partly old, partly new; in `stream` if the last word is the older
                            ///< one
  std::uint64_t wrong = 0;  ///< neither old nor new; in `tagged` an older payload under a new tag
  std::uint64_t looks() const { return right + stale + torn + wrong; }
  bool all_right() const { return right > 0 && looks() == right; }
};

struct Report {
  std::uint64_t rounds = 0;
  Counts counts[2][trial_count];  ///< of the first and of the second side, as reader

  Counts sum(Trial trial) const;
  bool all_right(Trial trial) const;
};

enum class Kind {
  coherent,           ///< plain loads see plain stores
  software,           ///< seen with write-back and invalidation
  no_partial_stores,  ///< as software, but publishing a word destroys its neighbours
  unusable,           ///< not even software mode works
};

struct Verdict {
  Kind kind = Kind::unusable;
  bool needs_write_back = false;  ///< an invalidation by the reader alone is not enough
  bool needs_invalidate = false;  ///< a write-back by the writer alone is not enough
  bool intra_node_holds = false;  ///< holds what peers on one node rely on; says nothing of two
                                  ///< nodes
  std::string why;                ///< why the memory is unusable
};

Verdict judge(const Report& report);

}  // namespace penstock::litmus

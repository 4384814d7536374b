// Describes a new pool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coherence/coherence.hpp"

namespace penstock::device {

inline constexpr std::uint32_t default_nodes = 64;

struct CreateOptions {
  std::string spec;
  /// Total of all parts. 0: the whole devdax; for a file that is replaced, its present size.
  std::uint64_t bytes = 0;
  coherence::Mode mode = coherence::Mode::software;
  std::uint32_t max_processes = 0;  ///< process slots, two a rank; 0: by the size, default_ranks
  std::uint32_t max_nodes = default_nodes;  ///< concurrent nodes
  std::uint32_t permissions = 0600;
  std::optional<std::string> group;  ///< group name that may attach too (permissions 0660)
  bool overwrite = false;            ///< replace an existing pool
  /// The files take space when an object is made, at once for the whole object. A full file system
  /// is an error then. Errors: unavailable (the file system cannot reserve space).
  bool sparse = false;
};

}  // namespace penstock::device

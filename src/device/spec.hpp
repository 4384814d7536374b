// SPEC: the text by which users name a pool.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace penstock::device {

inline constexpr std::uint32_t max_parts = 64;

/// One device, file or shared-memory segment of a SPEC.
struct Part {
  enum class Kind { devdax, file, shm } kind = Kind::file;
  std::string text;   ///< as written: "/dev/dax0.0", "/tmp/pool", "shm:demo"
  std::string named;  ///< its path: "/dev/shm/penstock.demo" for shm:demo
  /// The file that is opened, made or removed: `named`, or its target if that is a link.
  std::string path;

  bool is_link() const { return path != named; }
};
/// Parses a SPEC: `/dev/daxX.Y` | a path | `shm:NAME`; several parts joined by commas interleave.
Result<std::vector<Part>> parse_spec(std::string_view spec);
/// The same SPEC with absolute paths, for a process in another folder.
Result<std::string> absolute_spec(std::string_view spec);

}  // namespace penstock::device

// Small files of /proc and /sys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::base {

/// Returns all that can be read; "" when the file is absent or unreadable. Never throws: a file of
/// /proc whose process ends between open and read gives what was read so far, where a C++ stream
/// throws.
std::string read_file(const std::string& path);
/// The same without white space at the end: the kernel ends its files with a newline.
std::string read_value(const std::string& path);
/// Decimal or 0x...; nullopt for anything else, and where there is no file.
std::optional<std::uint64_t> read_number(const std::string& path);
/// The names in a folder, sorted, without those that begin with a dot; none where it is absent.
std::vector<std::string> folder_entries(const std::string& path);

}  // namespace penstock::base

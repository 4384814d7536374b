// Reads small files of /proc and /sys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::base {

/// Returns all that can be read; "" if the file is absent or unreadable. Never throws: a file of
/// /proc whose process ends between open and read gives the part read so far, where a C++ stream
/// would throw.
std::string read_file(const std::string& path);
/// The same without trailing white space: the kernel ends its files with a newline.
std::string read_value(const std::string& path);
/// Reads a number, decimal or 0x...; nullopt for anything else, and if there is no file.
std::optional<std::uint64_t> read_number(const std::string& path);
/// Returns the names in a folder, sorted, except those that begin with a dot; empty if there is no
/// folder.
std::vector<std::string> folder_entries(const std::string& path);

}  // namespace penstock::base

// Small files of /proc and /sys.
#pragma once

#include <string>

namespace penstock::base {

/// Returns all that can be read; "" when the file is absent or unreadable. Never throws: a file of
/// /proc whose process ends between open and read gives what was read so far, where a C++ stream
/// throws.
std::string read_file(const std::string& path);

}  // namespace penstock::base

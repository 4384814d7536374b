// Paths: this program, its libraries, programs on the PATH.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

/// The folder of this program, symbolic links resolved.
std::string own_folder();
/// libpenstock-fi.so of this installation or build tree. Error: not_found, with where it was
/// sought.
Result<std::string> provider_library();
/// libpenstock-mpi.so, likewise. Error: invalid_argument, where LD_PRELOAD cannot name its path.
Result<std::string> window_library();
/// libnccl.so.2 of ours, likewise.
Result<std::string> nccl_library();
inline constexpr const char* nccl_library_name = "libnccl.so.2";
/// The script that makes CXL memory a devdax; "" when it is absent.
std::string devdax_script();
inline constexpr const char* window_library_name = "libpenstock-mpi.so";
#ifdef PENSTOCK_SANITIZED
/// A library with a sanitizer cannot be preloaded into programs without it.
inline constexpr bool can_preload = false;
#else
inline constexpr bool can_preload = true;
#endif

bool is_program(const std::string& path);
bool is_file(const std::string& path);
bool is_folder(const std::string& path);
/// Without symbolic links; the path itself when it does not exist.
std::string resolved(const std::string& path);
/// "/usr/bin" of "/usr/bin/env"; "." without a slash.
std::string folder_of(const std::string& path);

/// Finds it like a shell; "" when it is not found.
std::string find_on_path(std::string_view program);
/// All of that name along the PATH, in its order.
std::vector<std::string> all_on_path(std::string_view program);

}  // namespace penstock::tools

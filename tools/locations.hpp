// Paths: of this program, of its libraries, and of programs on the PATH.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

/// The folder of this program, with symbolic links resolved.
std::string own_folder();
/// libpenstock-fi.so of this installation or build tree. Errors: not_found, which names the places
/// searched.
Result<std::string> provider_library();
/// The same for libpenstock-mpi.so. Errors: also invalid_argument if LD_PRELOAD cannot name its
/// path.
Result<std::string> window_library();
/// The same for Penstock's libnccl.so.2.
Result<std::string> nccl_library();
inline constexpr const char* nccl_library_name = "libnccl.so.2";
/// The script that makes CXL memory a devdax; "" if it is absent.
std::string devdax_script();
inline constexpr const char* window_library_name = "libpenstock-mpi.so";
#ifdef PENSTOCK_SANITIZED
/// A library with a sanitizer cannot be preloaded into programs without one.
inline constexpr bool can_preload = false;
#else
inline constexpr bool can_preload = true;
#endif

bool is_program(const std::string& path);
bool is_file(const std::string& path);
bool is_folder(const std::string& path);
/// Resolves symbolic links; returns the path itself if it does not exist.
std::string resolved(const std::string& path);
/// "/usr/bin" of "/usr/bin/env"; "." without a slash.
std::string folder_of(const std::string& path);
/// "env" of "/usr/bin/env".
std::string_view name_of(std::string_view path);

/// Finds a program as a shell does; "" if there is none.
std::string find_on_path(std::string_view program);
/// All programs of that name on the PATH, in its order.
std::vector<std::string> all_on_path(std::string_view program);

}  // namespace penstock::tools

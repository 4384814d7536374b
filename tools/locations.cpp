#include "locations.hpp"

#include <fmt/ranges.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/format.hpp"
#include "version.hpp"

namespace penstock::tools {
namespace {

/// `without`: the part of the error that says how to do without it; "" if that is impossible.
Result<std::string> own_library(const std::string& name, const char* without) {
  const std::string prefix = folder_of(own_folder());
  std::vector<std::string> sought;
  for (const char* folder : {"lib", "lib/penstock", PENSTOCK_LIBDIR "/penstock"}) {
    std::string path = prefix + "/" + folder + "/" + name;
    if (is_file(path)) return path;
    sought.push_back(std::move(path));
  }
  return fail(ErrorCode::not_found,
              "{} is absent (sought {}): build it with 'make build', or install "
              "with 'make install PREFIX=...'{}",
              name, fmt::join(sought, ", "), without);
}

Result<std::string> preloadable(Result<std::string> library, const char* without) {
  if (!library || library->find_first_of(" :") == std::string::npos) return library;
  return fail(ErrorCode::unavailable,
              "LD_PRELOAD cannot name '{}', which has a blank or a colon in it: install "
              "elsewhere with 'make install PREFIX=...'{}",
              *library, without);
}

}  // namespace

std::string own_folder() {
  return folder_of(resolved("/proc/self/exe"));
}

Result<std::string> provider_library() {
  return own_library("libpenstock-fi.so", "");
}

Result<std::string> window_library() {
  constexpr const char* without = "; --no-windows leaves the windows to the MPI instead";
  return preloadable(own_library(window_library_name, without), without);
}

Result<std::string> nccl_library() {
  return preloadable(own_library(std::string("nccl/") + nccl_library_name, ""), "");
}

std::string devdax_script() {
  const std::string path = folder_of(own_folder()) + "/lib/penstock/devdax";
  return is_program(path) ? path : "";
}

bool is_program(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

bool is_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string resolved(const std::string& path) {
  char full[PATH_MAX];
  return realpath(path.c_str(), full) ? full : path;
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string_view name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::vector<std::string> all_on_path(std::string_view program) {
  std::vector<std::string> found;
  const char* text = std::getenv("PATH");
  std::string_view path = text ? text : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const auto colon = path.find(':');
    const std::string_view folder = path.substr(0, colon);
    const std::string candidate =
        (folder.empty() ? std::string(".") : std::string(folder)) + "/" + std::string(program);
    if (is_program(candidate)) found.push_back(candidate);
    if (colon == std::string_view::npos) return found;
    path.remove_prefix(colon + 1);
  }
}

std::string find_on_path(std::string_view program) {
  if (program.find('/') != std::string_view::npos) {
    return is_program(std::string(program)) ? std::string(program) : "";
  }
  const auto found = all_on_path(program);
  return found.empty() ? "" : found.front();
}

}  // namespace penstock::tools

#include "pool/node_caches.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "base/unique_fd.hpp"

namespace penstock::pool {

namespace {

constexpr std::string_view suffix = ".cache";
constexpr std::string_view devices = "/dev/";
constexpr std::string_view memory_files = "/dev/shm/";
constexpr std::size_t id_digits = 16;
constexpr std::size_t host_digits = 8;

/// The common prefix of all names: "FOLDER/POOL.node".
std::string common_prefix(const std::string& pool_path) {
  const bool device = pool_path.starts_with(devices) && !pool_path.starts_with(memory_files);
  if (!device) return pool_path + ".node";
  return fmt::format("{}penstock.{}.node", memory_files,
                     std::string_view(pool_path).substr(pool_path.rfind('/') + 1));
}

bool all_of(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

/// The pool's id in "K.ID.HOST.cache", the rest after the prefix; nullopt for any other name.
std::optional<std::uint64_t> id_in(std::string_view rest) {
  constexpr std::string_view hex = "0123456789abcdef";
  if (!rest.ends_with(suffix)) return std::nullopt;
  rest.remove_suffix(suffix.size());
  const std::size_t first = rest.find('.'), last = rest.rfind('.');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  const std::string_view id = rest.substr(first + 1, last - first - 1);
  const std::string_view host = rest.substr(last + 1);
  if (!all_of(rest.substr(0, first), "0123456789") || id.size() != id_digits || !all_of(id, hex) ||
      host.size() != host_digits || !all_of(host, hex)) {
    return std::nullopt;
  }
  return std::stoull(std::string(id), nullptr, 16);
}

struct Found {
  std::string path;
  std::uint64_t pool_id;
};

std::vector<Found> find_all(const std::string& pool_path) {
  const std::string prefix = common_prefix(pool_path);
  const std::filesystem::path folder = std::filesystem::path(prefix).parent_path();
  const std::string name = std::filesystem::path(prefix).filename();
  std::vector<Found> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const std::string file = entry->path().filename();
    if (!file.starts_with(name)) continue;
    const auto id = id_in(std::string_view(file).substr(name.size()));
    if (id) found.push_back({entry->path(), *id});
  }
  return found;
}

}  // namespace

std::string node_cache_path(const std::string& pool_path, std::uint64_t pool_id,
                            const HostIdentity& host, std::uint32_t node) {
  return fmt::format("{}{}.{:016x}.{}{}", common_prefix(pool_path), node, pool_id,
                     format_uuid(host.boot_id).substr(0, host_digits), suffix);
}

void remove_node_caches(const std::string& pool_path, std::uint64_t pool_id) {
  for (const Found& found : find_all(pool_path)) {
    if (found.pool_id != pool_id) ::unlink(found.path.c_str());
  }
}

std::uint32_t remove_unused_node_caches(const std::string& pool_path) {
  std::uint32_t removed = 0;
  for (const Found& found : find_all(pool_path)) {
    const base::UniqueFd fd(
        ::open(found.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd.get() < 0 || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (::unlink(found.path.c_str()) == 0) ++removed;
  }
  return removed;
}

}  // namespace penstock::pool

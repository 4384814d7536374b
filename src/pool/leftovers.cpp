#include "pool/leftovers.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <regex>
#include <set>
#include <string_view>

#include "pool/node_caches.hpp"
#include "pool/occupancy.hpp"

namespace penstock::pool {
namespace {

/// Locks a byte beyond any pool with an open file description lock; host locks of pools are flocks.
struct flock claim_of(short type) {
  struct flock claim {};
  claim.l_type = type;
  claim.l_whence = SEEK_SET;
  claim.l_start = std::int64_t{1} << 62;
  claim.l_len = 1;
  return claim;
}

base::UniqueFd open_file(const std::string& path) {
  return base::UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

/// Returns "FOLDER/penstock.run-12-ab" for that name and for "FOLDER/penstock.run-12-ab.node0...";
/// "" for other names, and for names of living makers.
std::string pool_of_dead_maker(const std::string& folder, const std::string& name) {
  constexpr std::string_view prefix = "penstock.";
  if (!name.starts_with(prefix)) return "";
  const std::string pool = name.substr(0, name.find(".node"));
  return maker_has_ended(pool.substr(prefix.size())) ? folder + "/" + pool : "";
}

bool remove_unclaimed(const std::string& path, std::int64_t older_than_s) {
  const base::UniqueFd file = open_file(path);
  struct stat status;
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (status.st_uid != ::geteuid() || ::time(nullptr) - status.st_ctime < older_than_s)
    return false;
  struct flock alone = claim_of(F_WRLCK);
  if (::fcntl(file.get(), F_OFD_SETLK, &alone) != 0) return false;
  // the owner of the pool has ended, but ranks may have outlived their launcher
  const auto occupant = living_occupant(path);
  if (!occupant || *occupant) return false;
  return ::unlink(path.c_str()) == 0;
}

}  // namespace

bool maker_has_ended(const std::string& name) {
  static const std::regex made("(?:run|sim)-([1-9][0-9]{0,8})-[0-9a-f]{8}");
  std::smatch found;
  if (!std::regex_match(name, found, made)) return false;
  return ::kill(std::stoi(found[1]), 0) != 0 && errno == ESRCH;
}

base::UniqueFd claim_own_pool(const std::string& path) {
  base::UniqueFd file = open_file(path);
  struct flock shared = claim_of(F_RDLCK);
  if (file.get() >= 0) (void)::fcntl(file.get(), F_OFD_SETLK, &shared);
  return file;
}

std::uint32_t sweep_leftovers(const std::string& folder, std::int64_t older_than_s) {
  std::set<std::string> pools;
  DIR* const files = ::opendir(folder.c_str());
  if (files == nullptr) return 0;
  while (const dirent* entry = ::readdir(files)) {
    const std::string pool = pool_of_dead_maker(folder, entry->d_name);
    if (!pool.empty()) pools.insert(pool);
  }
  ::closedir(files);
  std::uint32_t removed = 0;
  for (const std::string& pool : pools) {
    const bool there = ::access(pool.c_str(), F_OK) == 0;
    if (there && !remove_unclaimed(pool, older_than_s)) continue;
    removed += (there ? 1 : 0) + remove_unused_node_caches(pool);
  }
  return removed;
}

}  // namespace penstock::pool

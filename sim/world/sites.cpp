#include "sim/world/sites.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "base/env.hpp"

namespace penstock::sim {

namespace {

using coherence::Site;
using coherence::Weakening;

constexpr std::size_t capacity = 4096;  // slots of a hash table, many more than places
constexpr std::array names = {"publish",    "write_back", "store_fence", "full_fence",
                              "invalidate", "load_fence", "wait"};

struct Entry {
  const char* file;
  unsigned line;
  Weakening what;
  bool mutant;
  std::uint64_t visits;
};

/// Shared with child processes, so that the places they reach are known here.
Entry* shared_entries() {
  static Entry* const entries =
      static_cast<Entry*>(::mmap(nullptr, capacity * sizeof(Entry), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return entries;
}
[[gnu::constructor]] void map_before_any_fork() {
  shared_entries();
}

/// Gives "src/pool/layout.hpp" or "lab/accelerator/leaf.cpp". A header is reached through a folder
/// that names its module, as headers/pool/pool/layout.hpp; those of lab/ access no pool.
std::string from_source_root(const std::string& file) {
  constexpr std::string_view headers = "headers/";
  if (const std::size_t at = file.rfind(headers); at != std::string::npos) {
    return "src" + file.substr(file.find('/', at + headers.size()));
  }
  std::size_t root = 0;
  for (const char* folder : {"/src/", "/lab/"})
    if (const std::size_t at = file.rfind(folder); at != std::string::npos)
      root = std::max(root, at + 1);
  return file.substr(root);
}

std::string name_of(const Entry& entry) {
  return fmt::format("{}:{}:{}", from_source_root(entry.file), entry.line,
                     names[static_cast<std::size_t>(entry.what)]);
}

/// PENSTOCK_SIM_MUTANT=src/sync/lock.cpp:87:full_fence
const std::string& wanted_mutant() {
  static const std::string wanted = base::env_text("PENSTOCK_SIM_MUTANT");
  return wanted;
}

Entry& entry_of(Weakening what, Site site) {
  const auto mix = (reinterpret_cast<std::uintptr_t>(site.file) / 8 + site.line) * 31 +
                   static_cast<std::size_t>(what);
  for (std::size_t i = mix * 0x9e3779b97f4a7c15u >> 52;; ++i) {
    Entry& entry = shared_entries()[i % capacity];
    if (entry.file == site.file && entry.line == site.line && entry.what == what) return entry;
    if (entry.file != nullptr) continue;
    entry = {site.file, site.line, what, false, 0};
    entry.mutant = name_of(entry) == wanted_mutant();
    return entry;
  }
}

}  // namespace

std::vector<SiteCount> visited_sites() {
  std::vector<SiteCount> sites;
  for (std::size_t i = 0; i < capacity; ++i) {
    const Entry& entry = shared_entries()[i];
    if (entry.file == nullptr) continue;
    sites.push_back({from_source_root(entry.file), entry.line,
                     names[static_cast<std::size_t>(entry.what)], entry.visits});
  }
  return sites;
}

void report_sites() {
  const std::string path = base::env_text("PENSTOCK_SIM_SITES");
  if (path.empty()) return;
  std::ofstream file(path, std::ios::app);
  for (const SiteCount& site : visited_sites()) {
    file << fmt::format("{}:{}:{} {}\n", site.file, site.line, site.what, site.visits);
  }
}

}  // namespace penstock::sim

bool penstock::coherence::weakened(Weakening what, Site site) {
  penstock::sim::Entry& entry = penstock::sim::entry_of(what, site);
  ++entry.visits;
  return entry.mutant;
}

#include "base/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>

#include "base/unique_fd.hpp"

namespace penstock::base {

std::string read_file(const std::string& path) {
  std::string text;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

std::string read_value(const std::string& path) {
  std::string text = read_file(path);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  return text;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const std::string text = read_value(path);
  const bool hex = text.starts_with("0x");
  const char* const first = text.data() + (hex ? 2 : 0);
  const char* const end = text.data() + text.size();
  std::uint64_t value = 0;
  const auto [stopped, error] = std::from_chars(first, end, value, hex ? 16 : 10);
  if (first == end || error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

std::vector<std::string> folder_entries(const std::string& path) {
  std::vector<std::string> names;
  DIR* const list = opendir(path.c_str());
  if (list == nullptr) return names;
  while (const dirent* entry = readdir(list))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  closedir(list);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace penstock::base

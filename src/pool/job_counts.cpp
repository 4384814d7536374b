#include "pool/job_counts.hpp"

#include <unistd.h>

#include <charconv>

#include "base/file.hpp"
#include "base/format.hpp"
#include "base/output_file.hpp"

namespace penstock::pool {
namespace {

constexpr std::string_view prefix = "counts.";

std::atomic<JobCounter*> all_counters{nullptr};

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Removes the text up to the next `end`, and `end` itself, from the line; returns the text.
std::string_view take(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return taken;
}

}  // namespace

JobCounter::JobCounter(const char* what) : what_(what), next_(all_counters.load()) {
  while (!all_counters.compare_exchange_weak(next_, this)) {
  }
}

void write_job_counts(const std::string& folder) {
  std::string text;
  for (const JobCounter* each = all_counters.load(); each != nullptr; each = each->next_)
    if (const std::uint64_t calls = each->calls_.load())
      text += fmt::format("{} {} {}\n", calls, each->bytes_.load(), each->what_);
  if (text.empty()) return;
  // each of our libraries in a process has its own counters
  const auto library = reinterpret_cast<std::uintptr_t>(&all_counters);
  auto file = base::OutputFile::open(
      fmt::format("{}/{}{}.{:x}", folder, prefix, static_cast<long>(::getpid()), library));
  if (file) (void)file->write(text);
}

std::map<std::string, JobCount> read_job_counts(const std::string& folder) {
  std::map<std::string, JobCount> sums;
  for (const std::string& name : base::folder_entries(folder)) {
    if (!name.starts_with(prefix)) continue;
    const std::string text = base::read_file(folder + "/" + name);
    for (std::string_view rest = text; !rest.empty();) {
      std::string_view line = take(rest, '\n');
      const std::uint64_t calls = number(take(line, ' ')), bytes = number(take(line, ' '));
      JobCount& sum = sums[std::string(line)];
      sum.calls += calls;
      sum.bytes += bytes;
    }
  }
  return sums;
}

}  // namespace penstock::pool

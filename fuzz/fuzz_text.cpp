// Text from people, launchers, /proc and other tools.
#include <cstdlib>
#include <map>
#include <string>

#include "base/cpus.hpp"
#include "base/env.hpp"
#include "fuzz/expect.hpp"
#include "fuzz/input.hpp"
#include "pool/host_identity.hpp"
#include "pool/lease.hpp"
#include "session/launcher.hpp"
#include "transport/layout.hpp"
#include "transport/settings.hpp"

namespace penstock::fuzz {
namespace {

void read_spec(std::string_view text) {
  const auto parts = device::parse_spec(text);
  if (!parts) return expect(is_told(parts.error()));
  expect(!parts->empty() && parts->size() <= device::max_parts);
  std::string joined;
  for (const auto& part : *parts) joined += (joined.empty() ? "" : ",") + part.text;
  expect(joined == text);
}

void read_bytes(std::string_view text) {
  const auto bytes = base::parse_bytes(text);
  if (!bytes) return expect(is_told(bytes.error()));
  std::string again = base::format_bytes(*bytes);  // "2 GiB", "1234 B"
  std::erase(again, ' ');
  if (again.ends_with("iB") || again.back() != 'B') {
    expect(base::parse_bytes(again) == *bytes);
  }
}

void read_identity(std::string_view text) {
  if (const auto uuid = pool::parse_uuid(text)) {
    expect(pool::parse_uuid(pool::format_uuid(*uuid)) == *uuid);
  }
  (void)pool::parse_proc_stat(text);
}

void read_limits(std::string_view text) {
  if (const auto cpus = base::count_cpu_list(text)) expect(*cpus > 0);
  if (const auto quota = base::parse_quota(text)) expect(*quota > 0);
  (void)base::cgroup_limits("/nowhere", text);
}

void read_variables(Input& input) {
  const auto table = base::variables();
  const base::Variable& variable = table[input.below(table.size())];
  const std::string value(input.rest());
  if (::setenv(variable.name, value.c_str(), 1) != 0) return;
  const auto number = base::env_number(variable.name);
  if (!number) expect(is_told(number.error()));
  (void)base::env_flag(variable.name);
  const auto settings = transport::settings_for(coherence::Mode::software);
  if (settings) {
    expect(settings->cell_bytes % coherence::line_bytes == 0);
    const transport::ChannelLayout first(settings->cell_count, settings->first_ring_lines),
        busy(settings->cell_count, settings->ring_lines);
    expect(first.bytes() <= busy.bytes());
    expect(settings->first_cell_count <= settings->cell_count);
  } else {
    expect(is_told(settings.error()));
  }
  if (const auto lease = pool::lease_from_environment()) expect(*lease > 0);
  (void)coherence::bind(coherence::Mode::software);
  ::unsetenv(variable.name);
}

void read_unknown_variables(std::string_view text) {
  std::string name =
      "PENSTOCK_" + std::string(text.substr(0, text.find_first_of(std::string_view("=\0", 2))));
  if (::setenv(name.c_str(), "1", 1) != 0) return;
  (void)base::unknown_variables();
  ::unsetenv(name.c_str());
}

/// A launcher's variables, one NAME=VALUE on each line; the last line is the command of an
/// ancestor.
void read_launcher(std::string_view text) {
  std::string lines(text);
  plugin::LaunchSources sources;
  std::map<std::string, std::string> values;  // a map, whose values stay in place as those of an
                                              // environment do
  sources.environment = [&](const char* name) -> const char* {
    const std::size_t at = lines.find(std::string(name) + '=');
    if (at == std::string::npos) return nullptr;
    const std::size_t begin = at + std::strlen(name) + 1;
    std::string& value = values[name];
    value = lines.substr(begin, lines.find('\n', begin) - begin);
    return value.c_str();
  };
  sources.ancestor_command = [&](unsigned n) -> std::string {
    return n > 3 ? "" : lines.substr(lines.rfind('\n') + 1);
  };
  const auto launch = plugin::read_launch(sources);
  if (!launch) expect(is_told(launch.error()));
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::fuzz;
  if (size > 4096) return -1;
  Input input(data, size);
  switch (input.below(7)) {
    case 0:
      read_spec(input.rest());
      break;
    case 1:
      read_bytes(input.rest());
      break;
    case 2:
      read_identity(input.rest());
      break;
    case 3:
      read_limits(input.rest());
      break;
    case 4:
      read_variables(input);
      break;
    case 5:
      read_unknown_variables(input.rest());
      break;
    default:
      read_launcher(input.rest());
      break;
  }
  return 0;
}

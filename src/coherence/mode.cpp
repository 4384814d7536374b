#include <string>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/nearest.hpp"
#include "coherence/coherence.hpp"

namespace penstock::coherence {

const char* mode_name(Mode mode) {
  switch (mode) {
    case Mode::hardware:
      return "hardware";
    case Mode::software:
      return "software";
    case Mode::uncached:
      return "uncached";
    case Mode::simulated:
      return "simulated";
  }
  return "unknown";
}

Result<Mode> parse_mode(std::string_view text) {
  std::vector<std::string> names;
  for (Mode mode : {Mode::hardware, Mode::software, Mode::uncached, Mode::simulated}) {
    if (text == mode_name(mode)) return mode;
    names.push_back(mode_name(mode));
  }
  const std::string meant = base::nearest(text, names);
  return fail(
      ErrorCode::invalid_argument,
      "'{}' is not a coherence mode: it must be hardware, software, uncached or simulated{}", text,
      meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

Result<std::optional<Mode>> mode_from_environment() {
  const std::string text = base::env_text("PENSTOCK_MODE");
  if (text.empty()) return std::optional<Mode>();
  return std::optional<Mode>(PENSTOCK_TRY(parse_mode(text)));
}

}  // namespace penstock::coherence

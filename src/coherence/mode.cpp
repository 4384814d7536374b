#include "base/format.hpp"
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
  for (Mode mode : {Mode::hardware, Mode::software, Mode::uncached, Mode::simulated}) {
    if (text == mode_name(mode)) return mode;
  }
  return fail(ErrorCode::invalid_argument,
              "'{}' is not a coherence mode: it must be hardware, software, uncached or simulated",
              text);
}

}  // namespace penstock::coherence

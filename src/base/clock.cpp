#include "base/clock.hpp"

#include "base/format.hpp"

namespace penstock::base {

std::string since_text(std::string_view text, std::uint64_t for_ns) {
  const auto since = static_cast<time_t>((wall_ns() - for_ns) / 1'000'000'000);
  tm parts{};
  gmtime_r(&since, &parts);
  return fmt::format("{} since {:02}:{:02}:{:02} UTC", text, parts.tm_hour, parts.tm_min,
                     parts.tm_sec);
}

}  // namespace penstock::base

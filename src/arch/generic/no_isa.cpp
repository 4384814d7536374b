// For CPUs without a folder of their own.
#include "arch/isa.hpp"

namespace penstock::arch::isa {

Features detect() {
  return {};
}
std::optional<Features> lowered(const Features&, std::string_view) {
  return std::nullopt;
}
std::vector<Table> tables(const Features&) {
  return {};
}
std::optional<FlushFunctions> flush_by(const Features&, Flush) {
  return std::nullopt;
}

}  // namespace penstock::arch::isa

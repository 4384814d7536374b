#include "arch/isa.hpp"

namespace penstock::arch::isa {

Features detect() {
  Features features;
  // Linux lets user space clean and invalidate by address on every aarch64 (SCTLR_EL1.UCI).
  features.dc_civac = true;
  return features;
}

std::optional<Features> lowered(const Features&, std::string_view) {
  return std::nullopt;
}

}  // namespace penstock::arch::isa

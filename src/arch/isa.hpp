// What each instruction-set folder (x86_64, aarch64, generic) supplies; select.cpp puts it
// together.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "arch/arch.hpp"

namespace penstock::arch::isa {

/// What the CPU and the operating system support.
Features detect();
/// `features` without what lies beyond `isa`; nullopt when the name is none of this CPU's.
std::optional<Features> lowered(const Features& features, std::string_view isa);
/// Tables that `features` can run, the best first; may be empty.
std::vector<Table> tables(const Features& features);
std::optional<FlushFunctions> flush_by(const Features& features, Flush flush);

}  // namespace penstock::arch::isa

namespace penstock::arch::generic {

/// Plain stores and fences: runs everywhere, valid for coherent pools only.
Table table();

}  // namespace penstock::arch::generic

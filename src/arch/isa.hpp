// The interface that each instruction-set folder (x86_64, aarch64, generic) implements; select.cpp
// combines them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "arch/arch.hpp"

namespace penstock::arch::isa {

/// The features that both the CPU and the operating system support.
Features detect();
/// `features` without those beyond `isa`; nullopt when this CPU has no instruction set `isa`.
std::optional<Features> lowered(const Features& features, std::string_view isa);
/// Tables that `features` can run, the best first; may be empty.
std::vector<Table> tables(const Features& features);
std::optional<FlushFunctions> flush_by(const Features& features, Flush flush);

}  // namespace penstock::arch::isa

namespace penstock::arch::generic {

/// Plain stores and fences: runs everywhere, valid for coherent pools only.
Table table();

}  // namespace penstock::arch::generic

#include <string>

#include "arch/arch.hpp"
#include "arch/isa.hpp"
#include "base/env.hpp"
#include "base/log.hpp"

namespace penstock::arch {
namespace {

Features read_features() {
  const Features detected = isa::detect();
  const std::string asked = base::env_text("PENSTOCK_ISA");
  if (asked.empty()) return detected;
  if (asked == "generic") return {};
  if (const auto features = isa::lowered(detected, asked)) return *features;
  base::log(base::Level::warn,
            "PENSTOCK_ISA is '{}', which this CPU does not have; it must be sse2, avx2, avx512 or "
            "generic: ignored",
            asked);
  return detected;
}

}  // namespace

const Features& features() {
  static const Features features = read_features();
  return features;
}

std::vector<Table> runnable_tables() {
  std::vector<Table> tables = isa::tables(features());
  tables.push_back(generic::table());
  return tables;
}

const Table& select() {
  static const Table table = runnable_tables().front();
  return table;
}

std::optional<FlushFunctions> flush_by(Flush flush) {
  return isa::flush_by(features(), flush);
}

const char* flush_name(Flush flush) {
  switch (flush) {
    case Flush::clflush:
      return "clflush";
    case Flush::clflushopt:
      return "clflushopt";
    case Flush::clwb:
      return "clwb";
  }
  return "unknown";
}

}  // namespace penstock::arch

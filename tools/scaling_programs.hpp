// The programs whose messages `penstock model scaling` simulates.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

struct ScalingProgram {
  std::string name;  ///< "cg", "miniamr", "ft", or the file that names traces
  std::string unit;  ///< what is simulated: "an outer iteration of CG class D"
  /// Of so many ranks, a text for each. Errors: invalid_argument, where it cannot have so many.
  std::function<Result<std::vector<std::string>>(std::uint32_t ranks)> traces;
  std::uint32_t ranks = 0;  ///< of traces that were given; 0: of any number
};

/// By name; `size`: CG's class. Errors: invalid_argument, which lists the known names.
Result<ScalingProgram> scaling_program(const std::string& name, const std::string& size);

/// Traces of another program. Errors: those of read_traces().
Result<ScalingProgram> traced_program(const std::string& list);

}  // namespace penstock::tools

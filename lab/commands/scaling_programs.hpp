// The programs whose messages `penstock model scaling` simulates.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

struct ScalingProgram {
  std::string name;  ///< "cg", "miniamr", "ft", or the file that lists traces
  std::string unit;  ///< the simulated unit: "an outer iteration of CG class D"
  /// A text for each of `ranks` ranks. Errors: invalid_argument if the program cannot have so many.
  std::function<Result<std::vector<std::string>>(std::uint32_t ranks)> traces;
  std::uint32_t ranks = 0;  ///< of given traces; 0: any number
};

/// Finds a program by name; `size`: CG's class. Errors: invalid_argument, which lists the known
/// names.
Result<ScalingProgram> scaling_program(const std::string& name, const std::string& size);

/// Reads traces of another program. Errors: those of read_traces().
Result<ScalingProgram> traced_program(const std::string& list);

}  // namespace penstock::tools

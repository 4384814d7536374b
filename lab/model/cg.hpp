// The messages of NAS CG, as traces that SimGrid replays: what lab/bench/scaling/cg.c sends,
// without running it. Source: Bailey et al., The NAS Parallel Benchmarks, and NPB 3.4's
// description of CG: ranks in a grid of rows and columns, sums over a row in log2 exchanges, a
// transpose.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace penstock::model {

/// A class of NPB.
struct CgClass {
  char name = 'D';
  std::uint64_t elements = 0;  ///< length of the vectors
  std::uint32_t nonzeros = 0;  ///< in a row, as NPB counts: n (n + 1) in a product
  std::uint32_t iterations = 0;
};
/// Errors: invalid_argument, which lists the known classes.
Result<CgClass> cg_class(std::string_view name);

/// One exchange: a message to rank `with`, and one from it.
struct CgExchange {
  std::uint32_t with = 0;
  std::uint32_t tag = 0;
  std::uint64_t elements = 0;  ///< of 8 bytes
  double flops = 0;            ///< computed before it
  bool operator==(const CgExchange&) const = default;
};

/// The exchanges of one rank in one outer iteration. Errors: invalid_argument if the number of
/// ranks is not a power of two, or does not divide the vectors.
Result<std::vector<CgExchange>> cg_exchanges(const CgClass& size, std::uint32_t ranks,
                                             std::uint32_t rank);

/// The lines of one rank's time-independent trace of `outer` outer iterations.
Result<std::string> cg_trace(const CgClass& size, std::uint32_t ranks, std::uint32_t rank,
                             std::uint32_t outer);

/// The floating-point operations of a rank in one outer iteration.
double cg_flops(const CgClass& size, std::uint32_t ranks);

}  // namespace penstock::model

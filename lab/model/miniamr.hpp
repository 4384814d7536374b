// The messages of miniAMR on a mesh that does not refine, as traces that SimGrid replays: one block
// a rank, whose faces go to its neighbours in each stage, and sums over all ranks.
// tests/conformance/miniamr_suite.py checks the sequence against the program itself. Sources:
// Vaughan and Barrett, Enabling Tractable Exploration of the Performance of Adaptive Mesh
// Refinement (2015); cMPI, section 4.4, which runs it with blocks of 4 x 4 x 4 cells.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::model {

/// miniAMR's options, with its defaults except for the cells.
struct AmrMesh {
  std::uint32_t cells = 4;         ///< in each direction of a block
  std::uint32_t variables = 40;    ///< in a cell, 8 bytes each
  std::uint32_t stages = 20;       ///< in a time step: an exchange of faces and a stencil
  std::uint32_t checked_each = 5;  ///< stages between sums over all ranks, one for each variable

  std::uint64_t face_elements() const { return std::uint64_t{variables} * cells * cells; }
  /// For one variable of a block: a stencil of 7 points, as miniAMR counts.
  double stencil_flops() const { return 7.0 * cells * cells * cells; }
  double check_flops() const { return 1.0 * cells * cells * cells; }
};

/// Blocks in x, y and z. Errors: invalid_argument if the number of ranks is not a power of two.
Result<std::array<std::uint32_t, 3>> amr_grid(std::uint32_t ranks);

/// Neighbours of a rank in each direction, ascending. Ranks are numbered by miniAMR's recursive
/// bisection, which halves the longest side first. Errors: as amr_grid().
Result<std::array<std::vector<std::uint32_t>, 3>> amr_neighbours(std::uint32_t ranks,
                                                                 std::uint32_t rank);

/// The lines of one rank's time-independent trace of `steps` time steps. Errors: as amr_grid().
Result<std::string> amr_trace(const AmrMesh& mesh, std::uint32_t ranks, std::uint32_t rank,
                              std::uint32_t steps);

/// The floating-point operations of a rank in one time step.
double amr_flops(const AmrMesh& mesh);

}  // namespace penstock::model

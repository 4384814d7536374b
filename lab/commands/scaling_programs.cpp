#include "scaling_programs.hpp"

#include "base/format.hpp"
#include "model/cg.hpp"
#include "model/miniamr.hpp"
#include "scaling_traces.hpp"

namespace penstock::tools {

namespace {

using Texts = std::vector<std::string>;

/// The traces of all ranks; `one` gives that of one rank.
template <class One>
Result<Texts> of_all(std::uint32_t ranks, One one) {
  Texts texts;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) texts.push_back(PENSTOCK_TRY(one(rank)));
  return texts;
}

}  // namespace

Result<ScalingProgram> scaling_program(const std::string& name, const std::string& size) {
  if (name == "cg") {
    const auto chosen = PENSTOCK_TRY(model::cg_class(size));
    return ScalingProgram{
        name, fmt::format("an outer iteration of CG class {}", chosen.name),
        [chosen](std::uint32_t ranks) {
          return of_all(ranks, [&](auto rank) { return model::cg_trace(chosen, ranks, rank, 1); });
        }};
  }
  if (name == "miniamr") {
    const model::AmrMesh mesh;
    return ScalingProgram{
        name, fmt::format("a time step of miniAMR, {0} x {0} x {0} cells a rank", mesh.cells),
        [mesh](std::uint32_t ranks) {
          return of_all(ranks, [&](auto rank) { return model::amr_trace(mesh, ranks, rank, 1); });
        }};
  }
  return fail(
      ErrorCode::invalid_argument,
      "there is no program '{}'; there are cg, miniamr, and by --replay any that was traced",
      base::printable(name));
}

Result<ScalingProgram> traced_program(const std::string& list) {
  const Texts texts = PENSTOCK_TRY(read_traces(list));
  return ScalingProgram{list, "the whole of " + list,
                        [texts](std::uint32_t) -> Result<Texts> { return texts; },
                        static_cast<std::uint32_t>(texts.size())};
}

}  // namespace penstock::tools

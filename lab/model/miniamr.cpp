#include "model/miniamr.hpp"

#include <algorithm>
#include <bit>

#include "base/format.hpp"

namespace penstock::model {

namespace {

using Triple = std::array<std::uint32_t, 3>;

/// The direction that each bit of a rank's number halves, the highest bit first.
std::vector<std::uint32_t> halvings(Triple sides) {
  std::vector<std::uint32_t> directions;
  while (sides != Triple{1, 1, 1}) {
    const auto longest =
        static_cast<std::uint32_t>(std::ranges::max_element(sides) - sides.begin());
    directions.push_back(longest);
    sides[longest] /= 2;
  }
  return directions;
}

Triple place_of(const std::vector<std::uint32_t>& directions, std::uint32_t rank) {
  Triple place{};
  for (std::size_t i = 0; i < directions.size(); ++i) {
    const std::uint32_t bit = rank >> (directions.size() - 1 - i) & 1;
    place[directions[i]] = place[directions[i]] * 2 + bit;
  }
  return place;
}

std::uint32_t rank_at(const std::vector<std::uint32_t>& directions, Triple sides, Triple place) {
  std::uint32_t rank = 0;
  for (const std::uint32_t direction : directions) {
    sides[direction] /= 2;
    const bool upper = place[direction] >= sides[direction];
    if (upper) place[direction] -= sides[direction];
    rank = rank * 2 + upper;
  }
  return rank;
}

std::string exchange_text(const AmrMesh& mesh, std::uint32_t rank,
                          const std::array<std::vector<std::uint32_t>, 3>& neighbours) {
  std::string text;
  for (std::uint32_t direction = 0; direction < 3; ++direction) {
    const auto& with = neighbours[direction];
    for (const char* action : {"irecv", "isend"})
      for (const std::uint32_t other : with)
        text +=
            fmt::format("{} {} {} {} {} 0\n", rank, action, other, direction, mesh.face_elements());
    if (!with.empty()) text += fmt::format("{} waitall {}\n", rank, 2 * with.size());
  }
  return text;
}

}  // namespace

Result<Triple> amr_grid(std::uint32_t ranks) {
  if (!std::has_single_bit(ranks))
    return fail(ErrorCode::invalid_argument,
                "miniAMR on {} ranks: a power of two is needed, such as {}", ranks,
                std::bit_floor(std::max(ranks, 1u)));
  const auto log = static_cast<std::uint32_t>(std::countr_zero(ranks));
  return Triple{1u << (log + 2) / 3, 1u << (log + 1) / 3, 1u << log / 3};
}

Result<std::array<std::vector<std::uint32_t>, 3>> amr_neighbours(std::uint32_t ranks,
                                                                 std::uint32_t rank) {
  const Triple sides = PENSTOCK_TRY(amr_grid(ranks));
  if (rank >= ranks) return fail(ErrorCode::invalid_argument, "rank {} of {} ranks", rank, ranks);
  const auto directions = halvings(sides);
  const Triple place = place_of(directions, rank);
  std::array<std::vector<std::uint32_t>, 3> all;
  for (std::uint32_t direction = 0; direction < 3; ++direction) {
    for (const int step : {-1, 1}) {
      Triple other = place;
      other[direction] += static_cast<std::uint32_t>(step);  // below 0 it wraps around, above all
                                                             // sides
      if (other[direction] < sides[direction])
        all[direction].push_back(rank_at(directions, sides, other));
    }
    std::ranges::sort(all[direction]);
  }
  return all;
}

Result<std::string> amr_trace(const AmrMesh& mesh, std::uint32_t ranks, std::uint32_t rank,
                              std::uint32_t steps) {
  const auto neighbours = PENSTOCK_TRY(amr_neighbours(ranks, rank));
  const std::string exchange = exchange_text(mesh, rank, neighbours);
  const std::string stage =
      exchange + fmt::format("{} compute {:.0f}\n", rank, mesh.variables * mesh.stencil_flops());
  std::string checked = exchange;
  for (std::uint32_t i = 0; i < mesh.variables; ++i)
    checked += fmt::format("{0} compute {1:.0f}\n{0} allreduce 1 0 0\n", rank,
                           mesh.stencil_flops() + mesh.check_flops());
  std::string text = fmt::format("{0} init\n{0} barrier\n", rank);
  for (std::uint32_t i = 0; i < steps * mesh.stages; ++i)
    text += i % mesh.stages % mesh.checked_each == 0 ? checked : stage;
  return text + fmt::format("{} finalize\n", rank);
}

double amr_flops(const AmrMesh& mesh) {
  const std::uint32_t checks = (mesh.stages + mesh.checked_each - 1) / mesh.checked_each;
  return mesh.variables * (mesh.stages * mesh.stencil_flops() + checks * mesh.check_flops());
}

}  // namespace penstock::model

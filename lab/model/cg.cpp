#include "model/cg.hpp"

#include <array>
#include <bit>

#include "base/format.hpp"

namespace penstock::model {

namespace {

constexpr std::array classes{CgClass{'S', 1400, 7, 15},    CgClass{'W', 7000, 8, 15},
                             CgClass{'A', 14000, 11, 15},  CgClass{'B', 75000, 13, 75},
                             CgClass{'C', 150000, 15, 75}, CgClass{'D', 1500000, 21, 100}};
constexpr std::uint32_t inner = 25;

double product_flops(const CgClass& size, std::uint32_t ranks) {
  return 2.0 * static_cast<double>(size.elements) * size.nonzeros * (size.nonzeros + 1) / ranks;
}

class Rank {
 public:
  Rank(const CgClass& size, std::uint32_t ranks, std::uint32_t rank)
      : size_(size), ranks_(ranks), rank_(rank) {
    const auto log = static_cast<std::uint32_t>(std::countr_zero(ranks));
    rows_ = 1u << log / 2;
    columns_ = 1u << (log + 1) / 2;
    levels_ = (log + 1) / 2;
    piece_ = size.elements / rows_;
  }

  std::vector<CgExchange> outer_iteration() {
    sum(1);
    for (std::uint32_t i = 0; i < inner; ++i) {
      product();
      sum(1);
      sum(1);
    }
    product();
    sum(1);
    sum(2);
    return all_;
  }

 private:
  /// The partner at the i-th level of a sum over a row, i from 1.
  std::uint32_t partner(std::uint32_t level) const {
    const std::uint32_t distance = columns_ >> (level - 1), column = rank_ % columns_;
    return rank_ / columns_ * columns_ + (column + distance / 2) % distance +
           column / distance * distance;
  }
  void sum(std::uint64_t elements) {
    for (std::uint32_t level = 1; level <= levels_; ++level) add(partner(level), level, elements);
  }
  void product() {
    flops_ += product_flops(size_, ranks_);
    if (levels_ == 0) return;
    // With twice as many columns as rows, two ranks first swap halves, and each goes on with its
    // own.
    const bool square = rows_ == columns_;
    const std::uint64_t elements = square ? piece_ : piece_ / 2;
    for (std::uint32_t level = levels_; level >= 1; --level) add(partner(level), level, elements);
    const std::uint32_t across =
        square ? rank_ % rows_ * rows_ + rank_ / rows_
               : 2 * (rank_ / 2 % rows_ * rows_ + rank_ / 2 / rows_) + rank_ % 2;
    add(across, 1, elements);
  }
  void add(std::uint32_t with, std::uint32_t tag, std::uint64_t elements) {
    all_.push_back({with, tag, elements, flops_});
    flops_ = 0;
  }

  const CgClass& size_;
  const std::uint32_t ranks_, rank_;
  std::uint32_t rows_ = 1, columns_ = 1, levels_ = 0;
  std::uint64_t piece_ = 0;
  double flops_ = 0;
  std::vector<CgExchange> all_;
};

}  // namespace

Result<CgClass> cg_class(std::string_view name) {
  std::string known;
  for (const CgClass& each : classes) {
    if (name.size() == 1 && name[0] == each.name) return each;
    known += std::string(known.empty() ? "" : ", ") + each.name;
  }
  return fail(ErrorCode::invalid_argument, "CG has no class '{}'; there are {}", name, known);
}

Result<std::vector<CgExchange>> cg_exchanges(const CgClass& size, std::uint32_t ranks,
                                             std::uint32_t rank) {
  if (!std::has_single_bit(ranks) || rank >= ranks)
    return fail(ErrorCode::invalid_argument, "CG on {} ranks: a power of two is needed, such as {}",
                ranks, std::bit_floor(std::max(ranks, 1u)));
  if (size.elements % (1ull << (std::countr_zero(ranks) + 1) / 2) != 0)
    return fail(ErrorCode::invalid_argument,
                "class {} of CG has {} elements, which {} ranks do not divide: fewer ranks, or a "
                "larger class",
                size.name, size.elements, ranks);
  return Rank(size, ranks, rank).outer_iteration();
}

Result<std::string> cg_trace(const CgClass& size, std::uint32_t ranks, std::uint32_t rank,
                             std::uint32_t outer) {
  const auto exchanges = PENSTOCK_TRY(cg_exchanges(size, ranks, rank));
  std::string iteration;
  for (const CgExchange& each : exchanges) {
    if (each.flops > 0) iteration += fmt::format("{} compute {:.0f}\n", rank, each.flops);
    iteration +=
        fmt::format("{0} irecv {1} {2} {3} 0\n{0} send {1} {2} {3} 0\n{0} wait {1} {0} {2}\n", rank,
                    each.with, each.tag, each.elements);
  }
  if (exchanges.empty())
    iteration = fmt::format("{} compute {:.0f}\n", rank, cg_flops(size, ranks));
  std::string text = fmt::format("{0} init\n{0} barrier\n", rank);
  for (std::uint32_t i = 0; i < outer; ++i) text += iteration;
  return text + fmt::format("{} finalize\n", rank);
}

double cg_flops(const CgClass& size, std::uint32_t ranks) {
  return (inner + 1) * product_flops(size, ranks);
}

}  // namespace penstock::model

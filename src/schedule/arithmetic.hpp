// How a reduction combines the ranks' values: by predefined types and operations, or by a user's
// function. Values are added in rank order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schedule/reduction.hpp"

namespace penstock::coll {

/// Reduces one piece: first() with the first rank's values, add() for each later rank, then
/// finish().
class Arithmetic {
 public:
  static constexpr std::size_t max_piece_bytes = 4096;

  virtual ~Arithmetic() = default;
  /// The type and operation if they are predefined, so that a switch can compute them; else null.
  virtual const Reduction* predefined() const { return nullptr; }
  /// Whether the result differs from the input even with a single rank.
  virtual bool changes_one() const { return false; }
  /// Bytes that one accumulator holds: whole elements, at most max_piece_bytes.
  virtual std::size_t piece_bytes() const = 0;
  /// `accumulator`: Reduction::accumulator_bytes bytes, aligned to 64. `bytes`: at most
  /// piece_bytes().
  virtual void first(std::byte* accumulator, const std::byte* in, std::size_t bytes) const = 0;
  virtual void add(std::byte* accumulator, const std::byte* in, std::size_t bytes) const = 0;
  virtual void finish(std::byte* out, const std::byte* accumulator, std::size_t bytes) const = 0;
  /// Does all three for two values.
  virtual void pair(std::byte* out, const std::byte* left, const std::byte* right,
                    std::size_t bytes, std::byte* accumulator) const {
    first(accumulator, left, bytes);
    add(accumulator, right, bytes);
    finish(out, accumulator, bytes);
  }
};

class PredefinedArithmetic final : public Arithmetic {
 public:
  explicit PredefinedArithmetic(const Reduction& reduction)
      : reduction_(reduction), element_bytes_(bytes_of(reduction.type())) {}

  const Reduction* predefined() const override { return &reduction_; }
  std::size_t piece_bytes() const override { return Reduction::max_elements * element_bytes_; }
  void first(std::byte* accumulator, const std::byte* in, std::size_t bytes) const override {
    reduction_.first(accumulator, in, bytes / element_bytes_);
  }
  void add(std::byte* accumulator, const std::byte* in, std::size_t bytes) const override {
    reduction_.add(accumulator, in, bytes / element_bytes_);
  }
  void finish(std::byte* out, const std::byte* accumulator, std::size_t bytes) const override {
    reduction_.finish(out, accumulator, bytes / element_bytes_);
  }
  void pair(std::byte* out, const std::byte* left, const std::byte* right, std::size_t bytes,
            std::byte*) const override {
    reduction_.pair(out, left, right, bytes / element_bytes_);
  }

 private:
  Reduction reduction_;
  std::size_t element_bytes_;
};

/// Multiplies each value by a factor first. The factor is the same on all ranks.
class PremultipliedArithmetic final : public Arithmetic {
 public:
  /// Errors: invalid_argument, if an integer type cannot hold the factor.
  static Result<PremultipliedArithmetic> make(const Reduction& reduction, double factor) {
    if (auto fits = reduction.check_factor(factor); !fits) return unexpected(fits.error());
    return PremultipliedArithmetic(reduction, factor);
  }

  bool changes_one() const override { return true; }
  std::size_t piece_bytes() const override { return Reduction::max_elements * element_bytes_; }
  void first(std::byte* accumulator, const std::byte* in, std::size_t bytes) const override {
    reduction_.first(accumulator, in, bytes / element_bytes_, factor_);
  }
  void add(std::byte* accumulator, const std::byte* in, std::size_t bytes) const override {
    reduction_.add(accumulator, in, bytes / element_bytes_, factor_);
  }
  void finish(std::byte* out, const std::byte* accumulator, std::size_t bytes) const override {
    reduction_.finish(out, accumulator, bytes / element_bytes_);
  }

 private:
  PremultipliedArithmetic(const Reduction& reduction, double factor)
      : reduction_(reduction), element_bytes_(bytes_of(reduction.type())), factor_(factor) {}

  Reduction reduction_;
  std::size_t element_bytes_;
  double factor_;
};

}  // namespace penstock::coll

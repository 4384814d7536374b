// What a reduction does with the values of the ranks: by predefined types and operations, or by a
// function of the user. Values come in rank order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/reduction.hpp"

namespace penstock::coll {

/// A reduction of a piece: the first rank's values, then the next one's, ..., then the result.
class Arithmetic {
 public:
  static constexpr std::size_t max_piece_bytes = 4096;

  virtual ~Arithmetic() = default;
  /// The type and operation, where others than the host know them: a switch that computes.
  virtual const Reduction* predefined() const { return nullptr; }
  /// Whether the value of a single rank changes too.
  virtual bool changes_one() const { return false; }
  /// Bytes of a piece that one accumulator takes: whole elements, max_piece_bytes at most.
  virtual std::size_t piece_bytes() const = 0;
  /// `accumulator`: Reduction::accumulator_bytes, aligned to 64. `bytes`: piece_bytes() at most.
  virtual void first(std::byte* accumulator, const std::byte* in, std::size_t bytes) const = 0;
  virtual void add(std::byte* accumulator, const std::byte* in, std::size_t bytes) const = 0;
  virtual void finish(std::byte* out, const std::byte* accumulator, std::size_t bytes) const = 0;
  /// The three of them for two values.
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

/// Each value is multiplied by a factor first, the same for all ranks.
class PremultipliedArithmetic final : public Arithmetic {
 public:
  /// Errors: invalid_argument, a factor that is no value of an integer type.
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

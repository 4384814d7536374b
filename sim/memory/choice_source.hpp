// The source of every choice of the simulation, so that choices can be replayed.
#pragma once

#include <cstdint>

namespace penstock::sim {

class ChoiceSource {
 public:
  virtual ~ChoiceSource() = default;
  /// Returns true in `per_mille` of 1000 cases.
  virtual bool chance(std::uint32_t per_mille) = 0;
  /// Returns a number below `bound` (at least 1). 0 is the usual choice.
  virtual std::uint64_t below(std::uint64_t bound) = 0;
};

/// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
class RandomChoices : public ChoiceSource {
 public:
  explicit RandomChoices(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  bool chance(std::uint32_t per_mille) override {
    return per_mille != 0 && next() % 1000 < per_mille;
  }
  std::uint64_t below(std::uint64_t bound) override { return next() % bound; }

 private:
  std::uint64_t state_;
};

}  // namespace penstock::sim

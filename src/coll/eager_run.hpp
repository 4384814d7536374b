// The eager form: one chunk of each rank in tagged lines, which need no doorbell.
#pragma once

#include <cstddef>
#include <vector>

#include "coll/executor.hpp"

namespace penstock::coll {

/// One chunk of each rank in tagged lines, which need no doorbell. All awaited lines are polled
/// together, so after the last has arrived the read costs one device access.
class EagerRun final : public Executor {
 public:
  using Executor::Executor;
  void begin(const Call& call, const Prepared& prepared) override;
  Result<bool> advance(Missing& missing) override;
  std::uint64_t position() const override {
    return (stage_ == Stage::published ? 1u : 0u) + (pending_.empty() ? 0 : pending_[0].arrived);
  }

 private:
  enum class Stage : std::uint8_t { begun, published };
  struct Pending {
    std::uint32_t read;         ///< its index
    std::uint64_t arrived = 0;  ///< payload bytes that have arrived
    bool in_vain = false;       ///< nothing arrived at the last look
  };
  /// The lines to poll for a read, and their payload.
  struct Window {
    const std::byte* lines = nullptr;
    std::uint64_t first_line = 0;
    std::uint64_t begin = 0, bytes = 0;  ///< in the payload
  };
  void publish(const Step& step);
  void publish_all();
  Window window_of(const Pending& pending) const;
  bool take_arrived();
  bool look_at_all();
  bool look(Pending& pending);
  void finish_steps();
  std::byte* destination(const EagerRead& read);

  Stage stage_ = Stage::begun;
  std::vector<Pending> pending_;
  std::vector<std::byte> staging_;
  std::vector<Use> last_use_;  ///< by block
};

}  // namespace penstock::coll

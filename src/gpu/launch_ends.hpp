// Which launches on streams of the program have ended. Only a launch itself can tell: the program
// may have destroyed its stream, and launches on different streams end in any order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "gpu/outstanding.hpp"
#include "gpu/pinned.hpp"

namespace penstock::gpu {

/// A word for each launch that may be outstanding. Used by the thread that enqueues.
class LaunchEnds {
 public:
  static Result<std::unique_ptr<LaunchEnds>> make(std::shared_ptr<const Device> device);

  /// Whether the word of the next launch is free. It is, unless as many launches are outstanding as
  /// there are words.
  bool has_room() const { return has_ended(launches_ % turns_.size()); }
  /// The GPU's address of the next launch's word, to which it stores `turn` as its last access to
  /// memory of ours. `turn`: greater than all before.
  std::uint64_t* word() const {
    return reinterpret_cast<std::uint64_t*>(words_->at(launches_ % turns_.size()));
  }
  /// Called after the launch.
  void note(std::uint64_t turn) { turns_[launches_++ % turns_.size()] = turn; }
  bool all_ended() const;

 private:
  LaunchEnds() = default;
  bool has_ended(std::size_t i) const {
    return (*words_)[i].load(std::memory_order_acquire) == turns_[i];
  }

  std::unique_ptr<PinnedWords> words_;
  std::array<std::uint64_t, Outstanding::most> turns_{};  ///< by word: its last launch; 0: none
  std::uint64_t launches_ = 0;
};

}  // namespace penstock::gpu

// Signals between two ranks: one line per direction, with one writer and one reader. It counts the
// epochs opened and completed, names the want that was answered (exposure.hpp), and may carry a
// small put (piggyback), which then costs no line of its own.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "window/directory.hpp"

namespace penstock::window {

/// A put that came with the end of an epoch.
struct Piggyback {
  std::uint64_t at = 0;  ///< offset in the segment
  std::uint32_t bytes = 0;
  std::byte data[max_piggybacked];
};

class Signals {
 public:
  Signals(const Context& context, Directory& directory);

  /// Call it before any signal to these ranks. Errors: no_space.
  Result<void> prepare(std::span<const std::uint32_t> readers);

  /// Both do a store fence: earlier publishes reach the device before the signal.
  void signal_open(std::span<const std::uint32_t> origins);
  void signal_complete(std::span<const std::uint32_t> targets);
  void answer(std::uint32_t origin, std::uint32_t serial);
  /// Sends the put with the next signal_complete(). False: there is one already, or it is too long.
  bool piggyback(std::uint32_t target, const Extent& piece, const void* from);

  /// Awaits one more signal from each of these ranks.
  void await_open(std::span<const std::uint32_t> targets);
  void await_complete(std::span<const std::uint32_t> origins);
  /// Removes from `missing` the ranks whose awaited signal has arrived. One device access.
  void remove_opened(Missing& missing);
  void remove_completed(Missing& missing);
  void remove_answered(Missing& missing, std::uint32_t serial);
  /// The put that the origin sent with its signal, checked against the segment's size. Call it
  /// after remove_completed() has removed the origin.
  std::optional<Piggyback> piggybacked(std::uint32_t origin, std::uint64_t segment_bytes);

 private:
  /// Last signals in both directions.
  struct Peer {
    SignalLine sent, seen;
    std::uint32_t opens_awaited = 0, completes_awaited = 0;
    bool piggybacking = false;
  };

  Peer& peer(std::uint32_t rank) {
    if (peers_.empty() || peers_[rank] == nullptr) [[unlikely]]
      make(rank);
    return *peers_[rank];
  }
  void make(std::uint32_t rank);
  void send(std::uint32_t reader);
  void observe(const Missing& writers);

  const Context& context_;
  Directory& directory_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by rank; only those with signals
};

}  // namespace penstock::window

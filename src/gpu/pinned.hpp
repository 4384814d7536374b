// Memory of this process that its GPUs access: parts of a pool, and words of Penstock's own.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "gpu/device.hpp"

namespace penstock::gpu {

/// New drivers refuse to register 512 GiB or more at once, and a copy must not straddle two
/// registrations.
inline constexpr std::uint64_t max_piece_bytes = 64ull << 30;

/// Memory that is registered with the driver as long as this lives; memory that several of them
/// name is registered once. All memory of a range lies in its one piece, or in pieces of
/// `piece_bytes`.
class Pinned {
 public:
  /// Registers the whole pages around the bytes. Errors: the driver's; then nothing is registered.
  static Result<Pinned> make(std::shared_ptr<const Device> device, std::byte* begin,
                             std::uint64_t bytes, std::uint64_t piece_bytes = max_piece_bytes);
  ~Pinned();
  Pinned(Pinned&& other) noexcept { *this = std::move(other); }
  Pinned& operator=(Pinned&& other) noexcept;

  bool has(const std::byte* address) const { return address >= begin_ && address < end_; }
  /// The GPU's address of `address`, which must lie in the memory.
  cuda::DevicePointer at(const std::byte* address) const;

 private:
  struct Piece {
    std::byte* begin = nullptr;
    cuda::DevicePointer pointer = 0;
  };
  Pinned() = default;
  Result<void> add(std::byte* begin, std::uint64_t bytes);

  std::shared_ptr<const Device> device_;
  std::byte *begin_ = nullptr, *end_ = nullptr;
  std::uint64_t piece_bytes_ = 0;
  std::vector<Piece> pieces_;
};

/// Host words that the GPU also writes and waits for, each in a line of its own unless they lie
/// `stride` bytes apart; all zero at first. As many as a page holds.
class PinnedWords {
 public:
  static Result<std::unique_ptr<PinnedWords>> make(std::shared_ptr<const Device> device,
                                                   std::size_t stride = 64);
  ~PinnedWords();
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;

  std::atomic<std::uint64_t>& operator[](std::size_t i) const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(page_ + i * stride_);
  }
  cuda::DevicePointer at(std::size_t i) const { return pinned_->at(page_ + i * stride_); }

 private:
  explicit PinnedWords(std::size_t stride) : stride_(stride) {}

  const std::size_t stride_;
  std::byte* page_ = nullptr;
  std::optional<Pinned> pinned_;
};

}  // namespace penstock::gpu

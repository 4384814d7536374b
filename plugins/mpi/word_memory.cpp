#include "word_memory.hpp"

#include <algorithm>

#include "pool_memory.hpp"

namespace penstock::mpi {

namespace {

/// Objects grow from the first to the second size: a process with one window takes little memory,
/// and one with thousands of windows makes few objects.
constexpr std::uint64_t first_object_bytes = 4096, largest_object_bytes = 256 << 10;

}  // namespace

WordMemory::~WordMemory() {
  if (!memory_.attached_here()) return;
  for (const arena::Object& object : objects_)
    taken_ == 0 ? memory_.give_back(object) : memory_.defer_reclaim(object);
}

Result<WordMemory::Piece> WordMemory::take(std::uint64_t bytes) {
  const std::lock_guard<std::mutex> guard(mutex_);
  auto& free = free_[bytes];
  if (!free.empty()) {
    const Piece piece{free.back(), bytes};
    free.pop_back();
    ++taken_;
    return piece;
  }
  if (end_ - next_ < bytes) {
    const std::uint64_t wanted =
        std::clamp(2 * object_bytes_, std::max(first_object_bytes, bytes), largest_object_bytes);
    objects_.push_back(PENSTOCK_TRY(memory_.make(wanted)));
    object_bytes_ = wanted;
    next_ = objects_.back().offset;
    end_ = next_ + wanted;
  }
  const Piece piece{next_, bytes};
  next_ += bytes;
  ++taken_;
  return piece;
}

void WordMemory::give_back(const Piece& piece) {
  const std::lock_guard<std::mutex> guard(mutex_);
  free_[piece.bytes].push_back(piece.offset);
  --taken_;
}

}  // namespace penstock::mpi

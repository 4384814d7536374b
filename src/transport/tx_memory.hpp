// Pool memory of one endpoint for its channels: taken from the arena in growing pieces, so that
// memory grows with the pairs that talk; given back as a whole when the endpoint closes.
#pragma once

#include <vector>

#include "penstock/transport.hpp"

namespace penstock::transport {

class TxMemory {
 public:
  TxMemory(arena::Arena& arena, const Address& owner) : arena_(&arena), owner_(owner) {}
  ~TxMemory();
  TxMemory(const TxMemory&) = delete;
  TxMemory& operator=(const TxMemory&) = delete;

  /// 4 KiB aligned, contents undefined. Errors: no_space, saying what for and how to mend.
  Result<std::byte*> allocate(std::uint64_t bytes, const char* what);

 private:
  Result<std::byte*> piece(std::uint64_t bytes, const char* what);

  arena::Arena* arena_;
  Address owner_;
  std::vector<arena::Object> pieces_;
  std::byte* free_ = nullptr;
  std::uint64_t free_bytes_ = 0;
  std::uint64_t next_piece_bytes_ = 256 << 10;
};

}  // namespace penstock::transport

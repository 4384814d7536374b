// Host copies of the buffers of a call whose data a Mover moves, so that this thread can complete
// it. The copies begin at a given byte of each block.
#pragma once

#include <cstdint>
#include <memory>

#include "coll/communicator.hpp"

namespace penstock::coll {

class StagedCall {
 public:
  bool is_there() const { return mover_ != nullptr; }
  /// Fetches the input without the first `done` bytes of each block. `call` and all that it points
  /// to must stay until store(). Errors: those of the mover.
  Result<void> fetch(const Call& call, std::uint64_t done);
  /// The call with these buffers and without a mover.
  Call on_host(const Call& call) const;
  /// Stores the output, without those first bytes, where the call wants it. Then frees the copies.
  Result<void> store();

 private:
  Mover* mover_ = nullptr;
  const Problem* problem_ = nullptr;
  std::uint64_t done_ = 0;
  std::unique_ptr<std::byte[]> input_, output_;  ///< in place: both are `input_`
};

}  // namespace penstock::coll

// A call whose data a Mover moves, and which goes on by this thread: copies of its buffers in
// memory of the host, from some byte of each block on.
#pragma once

#include <cstdint>
#include <memory>

#include "coll/communicator.hpp"

namespace penstock::coll {

class StagedCall {
 public:
  bool is_there() const { return mover_ != nullptr; }
  /// Takes the input without the first `done` bytes of each block. `call` and what it names stay
  /// until store(). Errors: those of the mover.
  Result<void> fetch(const Call& call, std::uint64_t done);
  /// The call with these buffers, and no mover.
  Call on_host(const Call& call) const;
  /// Puts the output, without those first bytes, where the call wants it. Then nothing is there.
  Result<void> store();

 private:
  Mover* mover_ = nullptr;
  const Problem* problem_ = nullptr;
  std::uint64_t done_ = 0;
  std::unique_ptr<std::byte[]> input_, output_;  ///< in place: both are `input_`
};

}  // namespace penstock::coll

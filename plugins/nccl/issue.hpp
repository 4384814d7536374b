// The messages of a group, of one communicator or of several, while the streams of the GPU are
// given them. One thread gives each stream what it takes at once, in turns, so that no message
// waits for the room of another: the ranks may name the messages of a group in any order.
#pragma once

#include <vector>

#include "nccl/abi.hpp"
#include "nccl/point_to_point.hpp"

namespace penstock::nccl {

/// Of one communicator that has a GPU and that Penstock carries. The caller holds it.
struct Messages {
  Comm comm = nullptr;
  std::vector<Transfer> transfers;
};

/// Begins all messages; returns when the streams have been given them. An error of one communicator
/// does not end the others' messages; the first one is returned. Order `all` alike in all threads.
Result begin_together(const std::vector<Messages>& all);

}  // namespace penstock::nccl

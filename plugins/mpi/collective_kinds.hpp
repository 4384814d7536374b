// The kinds of the arguments of each collective call.
#pragma once

#include <string_view>

#include "collective_arguments.hpp"

namespace penstock::mpi {

/// One letter for each argument: b a buffer, i a count, a an array of counts or displacements, t a
/// datatype, o an operation, r the root, c the communicator. "" if the kinds are not known.
constexpr std::string_view kinds_of(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::barrier:
      return "c";
    case CollectiveCall::bcast:
      return "bitrc";
    case CollectiveCall::gather:
    case CollectiveCall::scatter:
      return "bitbitrc";
    case CollectiveCall::gatherv:
      return "bitbaatrc";
    case CollectiveCall::scatterv:
      return "baatbitrc";
    case CollectiveCall::allgather:
    case CollectiveCall::alltoall:
    case CollectiveCall::neighbor_allgather:
    case CollectiveCall::neighbor_alltoall:
      return "bitbitc";
    case CollectiveCall::allgatherv:
      return "bitbaatc";
    case CollectiveCall::alltoallv:
      return "baatbaatc";
    case CollectiveCall::reduce:
      return "bbitorc";
    case CollectiveCall::allreduce:
    case CollectiveCall::scan:
    case CollectiveCall::exscan:
    case CollectiveCall::reduce_scatter_block:
      return "bbitoc";
    case CollectiveCall::reduce_scatter:
      return "bbatoc";
    default:
      return "";
  }
}

}  // namespace penstock::mpi

// Another NCCL library, NVIDIA's own, which PENSTOCK_NCCL_LOCAL names: it carries the communicators
// whose ranks share a host, where it has NVLink and the like. As MSCCL++ does it.
#pragma once

#include "nccl/abi.hpp"
#include "nccl/meeting.hpp"

namespace penstock::nccl {

/// Its communicators, which are not ours.
struct OtherComm;

struct OtherLibrary {
#define PENSTOCK_OTHER(name, arguments) Result(*name) arguments = nullptr;
#include "nccl/other_table.inc"
#undef PENSTOCK_OTHER
  const char* (*GetLastError)(OtherComm* comm) = nullptr;

  /// Null where none is named. Errors: invalid_usage, one that cannot be loaded.
  static Result get(const OtherLibrary** library);
  /// Its result; its words become those of ncclGetLastError().
  Result passed_on(Result result, const char* call, OtherComm* comm) const;
};

/// Whether the ranks of a communicator share a host; then `comm` is one of the other library's.
/// Every rank asks, or none: the variable is the same on all.
Result make_other(const OtherLibrary& library, Meeting& meeting, int rank, int ranks,
                  OtherComm** comm);

}  // namespace penstock::nccl

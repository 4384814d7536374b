// The parts of NCCL's interface that Penstock does not implement. Programs and PyTorch refer to
// them, so they are exported; each call reports that it is not implemented.
#include "base/format.hpp"
#include "nccl/export.hpp"

namespace penstock::nccl {

namespace {

Result refused(const char* call) {
  return failed(invalid_usage, fmt::format("{}: Penstock's NCCL library does not implement it; "
                                           "plugins/nccl/README.md lists what it does",
                                           call));
}

}  // namespace

#define PENSTOCK_REFUSED(name)      \
  PENSTOCK_NCCL(Result, name, ()) { \
    return refused(#name);          \
  }

// Device-side communication
PENSTOCK_REFUSED(ncclCommQueryProperties)
PENSTOCK_REFUSED(ncclDevCommCreate)
PENSTOCK_REFUSED(ncclDevCommDestroy)
PENSTOCK_REFUSED(ncclGetCftDeviceLeInfo)
PENSTOCK_REFUSED(ncclGetLsaDevicePointer)
PENSTOCK_REFUSED(ncclGetLsaMultimemDevicePointer)
PENSTOCK_REFUSED(ncclGetMultimemDeviceLeInfo)
PENSTOCK_REFUSED(ncclGetMultimemDevicePointer)
PENSTOCK_REFUSED(ncclGetPeerDeviceLeInfo)
PENSTOCK_REFUSED(ncclGetPeerDevicePointer)
PENSTOCK_REFUSED(ncclGinBarrierCreateRequirement)
PENSTOCK_REFUSED(ncclGinInboxA2ACreateRequirement)
PENSTOCK_REFUSED(ncclGinOutboxCreateRequirement)
PENSTOCK_REFUSED(ncclLLA2ACreateRequirement)
PENSTOCK_REFUSED(ncclLsaBarrierCreateRequirement)
// One-sided communication
PENSTOCK_REFUSED(ncclPutSignal)
PENSTOCK_REFUSED(ncclSignal)
PENSTOCK_REFUSED(ncclWaitSignal)
// Growing, suspending and resuming communicators
PENSTOCK_REFUSED(ncclCommGetUniqueId)
PENSTOCK_REFUSED(ncclCommGrow)
PENSTOCK_REFUSED(ncclCommResume)
PENSTOCK_REFUSED(ncclCommSuspend)
// Settings of NVIDIA's library
PENSTOCK_REFUSED(ncclParamBind)
PENSTOCK_REFUSED(ncclParamGet)
PENSTOCK_REFUSED(ncclParamGetAllParameterKeys)
PENSTOCK_REFUSED(ncclParamGetI16)
PENSTOCK_REFUSED(ncclParamGetI32)
PENSTOCK_REFUSED(ncclParamGetI64)
PENSTOCK_REFUSED(ncclParamGetI8)
PENSTOCK_REFUSED(ncclParamGetParameter)
PENSTOCK_REFUSED(ncclParamGetStr)
PENSTOCK_REFUSED(ncclParamGetU16)
PENSTOCK_REFUSED(ncclParamGetU32)
PENSTOCK_REFUSED(ncclParamGetU64)
PENSTOCK_REFUSED(ncclParamGetU8)
PENSTOCK_REFUSED(ncclSetEncryption)

PENSTOCK_NCCL(void, ncclParamDumpAll, ()) {}
PENSTOCK_NCCL(void, ncclResetDebugInit, ()) {}
extern "C" __attribute__((visibility("default"))) void ncclResetDebugInitInternal() {}
/// Returns 0 slots, since there are none.
PENSTOCK_NCCL(int, ncclLLA2ACalcSlots, (int, int)) {
  return 0;
}
PENSTOCK_NCCL(int, ncclTeamRankToLsa, (void*, Team, int)) {
  return -1;
}
PENSTOCK_NCCL(Team, ncclTeamCft, (void*, int)) {
  return {0, 0, 0};
}
PENSTOCK_NCCL(Team, ncclTeamCftMultimem, (void*)) {
  return {0, 0, 0};
}

}  // namespace penstock::nccl

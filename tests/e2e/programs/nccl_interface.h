/* What the test programs use of NCCL's interface (nccl.h), and of the driver's (cuda.h). */
#ifndef NCCL_INTERFACE_H
#define NCCL_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

typedef struct ncclComm* ncclComm_t;
typedef struct {
  char internal[128];
} ncclUniqueId;
typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t;
typedef void* cudaStream_t;
enum {
  ncclSuccess = 0,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
/* The head of ncclConfig_t; an int that is not set is NCCL_CONFIG_UNDEF_INT. */
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking;
  char others[112];
} ncclConfig_t;
enum {
  ncclInt8,
  ncclUint8,
  ncclInt32,
  ncclUint32,
  ncclInt64,
  ncclUint64,
  ncclFloat16,
  ncclFloat32,
  ncclFloat64,
  ncclBfloat16,
  ncclFloat8e4m3,
  ncclFloat8e5m2,
  ncclNumTypes
};
enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg };

#define CALL ncclResult_t
#define PLACE const void *send, void *receive, size_t count, ncclDataType_t type
CALL ncclGetVersion(int* version);
CALL ncclGetUniqueId(ncclUniqueId* id);
CALL ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
CALL ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                            ncclConfig_t* config);
CALL ncclCommInitAll(ncclComm_t* comms, int devices, const int* list);
CALL ncclCommFinalize(ncclComm_t comm);
CALL ncclCommDestroy(ncclComm_t comm);
CALL ncclCommAbort(ncclComm_t comm);
CALL ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, void* config);
CALL ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made, void* config,
                    int flags);
CALL ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* found);
CALL ncclCommCount(ncclComm_t comm, int* count);
CALL ncclCommCuDevice(ncclComm_t comm, int* device);
CALL ncclCommUserRank(ncclComm_t comm, int* rank);
CALL ncclMemAlloc(void** memory, size_t bytes);
CALL ncclMemFree(void* memory);
CALL ncclCommRegister(ncclComm_t comm, void* data, size_t bytes, void** handle);
CALL ncclCommWindowRegister(ncclComm_t comm, void* data, size_t bytes, void** window, int flags);
CALL ncclCommWindowDeregister(ncclComm_t comm, void* window);
CALL ncclWinGetUserPtr(ncclComm_t comm, void* window, void** data);
CALL ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type, int residence,
                              ncclComm_t comm);
CALL ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
CALL ncclAllReduce(PLACE, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
CALL ncclReduce(PLACE, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
CALL ncclReduceScatter(PLACE, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
CALL ncclBroadcast(PLACE, int root, ncclComm_t comm, cudaStream_t stream);
CALL ncclAllGather(PLACE, ncclComm_t comm, cudaStream_t stream);
CALL ncclAlltoAll(PLACE, ncclComm_t comm, cudaStream_t stream);
CALL ncclGather(PLACE, int root, ncclComm_t comm, cudaStream_t stream);
CALL ncclScatter(PLACE, int root, ncclComm_t comm, cudaStream_t stream);
CALL ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
              cudaStream_t stream);
CALL ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
              cudaStream_t stream);
CALL ncclGroupStart(void);
CALL ncclGroupEnd(void);
CALL ncclPutSignal(void);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);

#endif

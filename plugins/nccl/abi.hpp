// The types and constants of NCCL's interface, version 2.32.3 (nccl.h). With them the build needs
// no header of NCCL or CUDA. tests/e2e/nccl_test.py compares the exported names with NVIDIA's
// library if it is installed.
#pragma once

#include <cstddef>
#include <cstdint>

struct ncclComm;
struct CUstream_st;

namespace penstock::nccl {

inline constexpr int version = 23203;

using Result = int;  ///< ncclResult_t
inline constexpr Result success = 0, unhandled_cuda_error = 1, system_error = 2, internal_error = 3,
                        invalid_argument = 4, invalid_usage = 5, remote_error = 6, in_progress = 7;

struct UniqueId {
  char internal[128];
};

/// Number of values of ncclDataType_t.
inline constexpr int datatypes = 12;
inline constexpr int float16_type = 6, float32_type = 7, float64_type = 8, bfloat16_type = 9,
                     e4m3_type = 10, e5m2_type = 11;
/// ncclRedOp_t: values below this one are the built-in operations.
inline constexpr int first_user_op = 5;
/// ncclScalarResidence_t
inline constexpr int scalar_on_device = 0, scalar_on_host = 1;

/// The first fields of ncclConfig_t. Newer versions add fields at the end; `size` is the number of
/// bytes that the caller's version has.
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking, cga_cluster_size, min_ctas, max_ctas;
  const char* net_name;
  int split_share, traffic_class;
  const char* comm_name;
};
inline constexpr unsigned config_magic = 0xcafebeef;
inline constexpr int undefined = -2147483647 - 1;  ///< NCCL_CONFIG_UNDEF_INT
inline constexpr int no_color = -1;

/// ncclTeam_t
struct Team {
  int ranks, rank, stride;
};

using Stream = CUstream_st*;
using Comm = ::ncclComm*;

}  // namespace penstock::nccl

// NCCL's interface for network plug-ins, versions 10 and 11 (net_v10.h, net_v11.h): structures and
// constants. With them the build needs no header of NCCL.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::ncclnet {

using Result = int;  ///< ncclResult_t
inline constexpr Result success = 0, system_error = 2, internal_error = 3, invalid_argument = 4,
                        invalid_usage = 5, remote_error = 6;

inline constexpr int pointer_host = 1;  ///< NCCL_PTR_HOST
inline constexpr std::size_t handle_bytes = 128, max_net_bytes = std::size_t{1} << 30;
inline constexpr int log_warn = 2, log_info = 3;
inline constexpr unsigned long log_net = 16;

using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);
using Profiler = Result (*)(void** handle, int type, void* parent, std::int64_t plugin, void* data);

struct VirtualDevice {
  int count;
  int devices[4];
};
struct PropertiesV10 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support, registration_is_global, force_flush;
  int speed;  ///< Mbit/s
  int port;
  float latency;  ///< microseconds; 0: NCCL's default
  int max_comms, max_receives;
  int device_type, device_version;
  VirtualDevice virtual_device;
  std::size_t max_p2p_bytes, max_collective_bytes;
};
struct PropertiesV11 {
  PropertiesV10 old;
  int max_multi_request;
};

/// The functions that are the same in both versions.
#define PENSTOCK_NET_FUNCTIONS                                                                     \
  Result (*accept)(void* listening, void** receiving, void** device);                              \
  Result (*register_memory)(void* comm, void* data, std::size_t bytes, int type, void** handle);   \
  Result (*register_dma_buf)(void* comm, void* data, std::size_t bytes, int type,                  \
                             std::uint64_t offset, int file, void** handle);                       \
  Result (*deregister_memory)(void* comm, void* handle);                                           \
  Result (*send)(void* comm, void* data, std::size_t bytes, int tag, void* handle, void* profile,  \
                 void** request);                                                                  \
  Result (*receive)(void* comm, int count, void** data, std::size_t* bytes, int* tags,             \
                    void** handles, void** profiles, void** request);                              \
  Result (*flush)(void* comm, int count, void** data, int* bytes, void** handles, void** request); \
  Result (*test)(void* request, int* done, int* bytes);                                            \
  Result (*close_send)(void* comm);                                                                \
  Result (*close_receive)(void* comm);                                                             \
  Result (*close_listen)(void* listening);                                                         \
  Result (*device_memory)(void* comm, void* handle, void** device_handle);                         \
  Result (*receive_consumed)(void* comm, int count, void* request);

struct NetV10 {
  const char* name;
  Result (*init)(Logger logger, Profiler profiler);
  Result (*devices)(int* count);
  Result (*properties)(int device, PropertiesV10* properties);
  Result (*listen)(int device, void* handle, void** listening);
  Result (*connect)(int device, void* config, void* handle, void** sending, void** device_handle);
  PENSTOCK_NET_FUNCTIONS
  Result (*make_virtual_device)(int* device, VirtualDevice* properties);
};
struct NetV11 {
  const char* name;
  Result (*init)(void** context, std::uint64_t comm, void* config, Logger logger,
                 Profiler profiler);
  Result (*devices)(int* count);
  Result (*properties)(int device, PropertiesV11* properties);
  Result (*listen)(void* context, int device, void* handle, void** listening);
  Result (*connect)(void* context, int device, void* handle, void** sending, void** device_handle);
  PENSTOCK_NET_FUNCTIONS
  Result (*make_virtual_device)(int* device, VirtualDevice* properties);
  Result (*finalize)(void* context);
  Result (*set_attributes)(void* context, void* attributes);
};
#undef PENSTOCK_NET_FUNCTIONS

}  // namespace penstock::ncclnet

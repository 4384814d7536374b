// The function tables through which NCCL calls the plug-in: ncclNetPlugin_v11 and
// ncclNetPlugin_v10.
#include <cstring>
#include <exception>

#include "ncclnet/connection.hpp"
#include "penstock/penstock.h"

namespace penstock::ncclnet {

namespace {

/// Runs `body`; turns an exception into an error, since none may reach NCCL.
template <class Body>
Result guarded(const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return failed(internal_error, error.what());
  }
}

Result init(Logger logger) {
  set_logger(logger);
  return success;
}

/// Offers one device if a pool is named. Without a device NCCL uses its sockets.
Result devices(int* count) {
  return guarded([&] {
    *count = has_pool() ? 1 : 0;
    if (*count == 0) (void)failed(success, penstock_last_error());
    return success;
  });
}

Result properties_v10(int, PropertiesV10* found) {
  static char name[] = "penstock";
  penstock_pool_info_t pool{};
  (void)penstock_pool_info(penstock_default_pool(), &pool);
  *found = {};
  found->name = name;
  found->guid = pool.id;
  found->pointer_support = pointer_host;
  // NCCL compares paths by speed. This is the speed of PCIe 5 with eight lanes, as CXL memory has.
  found->speed = 256'000;
  found->port = 1;
  found->max_comms = 512;
  found->max_receives = 1;
  found->virtual_device = {1, {0, 0, 0, 0}};
  found->max_p2p_bytes = found->max_collective_bytes = max_net_bytes;
  return success;
}
Result properties_v11(int device, PropertiesV11* found) {
  found->max_multi_request = 1;
  return properties_v10(device, &found->old);
}

Result listen(void* handle, void** listening) {
  return guarded([&] {
    std::unique_ptr<Connection> made;
    const Result opened = Connection::open(0, made);
    if (opened != success) return opened;
    const Handle own{.address = made->address()};
    std::memcpy(handle, &own, sizeof own);
    *listening = new std::unique_ptr<Connection>(std::move(made));
    return success;
  });
}

Result connect(void* handle, void** sending, void** device_handle) {
  return guarded([&] {
    *sending = nullptr;
    if (device_handle != nullptr) *device_handle = nullptr;
    Handle there;
    std::memcpy(static_cast<void*>(&there), handle, sizeof there);
    std::unique_ptr<Connection> begun(there.begun);
    if (begun == nullptr) {
      if (const Result opened = Connection::open(1, begun); opened != success) return opened;
      const Result greeted = begun->greet(there.address);
      if (greeted != success) return greeted;
    }
    bool met = false;
    const Result looked = begun->has_met(met);
    there.begun = looked == success && !met ? begun.get() : nullptr;
    std::memcpy(handle, &there, sizeof there);
    if (looked == success && met) *sending = begun.get();
    if (looked == success) (void)begun.release();
    return looked;
  });
}

Result accept(void* listening, void** receiving, void** device_handle) {
  return guarded([&] {
    *receiving = nullptr;
    if (device_handle != nullptr) *device_handle = nullptr;
    auto& held = *static_cast<std::unique_ptr<Connection>*>(listening);
    if (held == nullptr) return failed(invalid_usage, "a listening end was accepted from already");
    bool met = false;
    const Result looked = held->has_met(met);
    if (looked == success && met) *receiving = held.release();
    return looked;
  });
}

Result register_memory(void*, void*, std::size_t, int type, void** handle) {
  static char registered;  // a dummy handle: no memory needs registration
  *handle = &registered;
  if (type == pointer_host) return success;
  return failed(invalid_usage, "memory of a GPU cannot be sent from: NCCL stages it in the host's");
}
Result register_dma_buf(void*, void*, std::size_t, int, std::uint64_t, int, void**) {
  return failed(invalid_usage, "DMA-BUF memory cannot be sent from");
}
Result deregister_memory(void*, void*) {
  return success;
}

Result send(void* comm, void* data, std::size_t bytes, int tag, void*, void*, void** request) {
  return guarded([&] { return static_cast<Connection*>(comm)->send(data, bytes, tag, request); });
}
Result receive(void* comm, int count, void** data, std::size_t* bytes, int* tags, void**, void**,
               void** request) {
  return guarded([&] {
    *request = nullptr;
    if (count != 1) return failed(invalid_usage, "several receives in one are not offered");
    return static_cast<Connection*>(comm)->receive(data[0], bytes[0], tags[0], request);
  });
}
/// Does nothing: the data are in host memory when a receive is done.
Result flush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return success;
}
Result test(void* request, int* done, int* bytes) {
  return guarded([&] { return Connection::test(static_cast<Request*>(request), done, bytes); });
}

Result close(void* comm) {
  delete static_cast<Connection*>(comm);
  return success;
}
Result close_listen(void* listening) {
  delete static_cast<std::unique_ptr<Connection>*>(listening);
  return success;
}
Result device_memory(void*, void*, void**) {
  return failed(invalid_usage, "kernels cannot use connections of Penstock's");
}
Result receive_consumed(void*, int, void*) {
  return failed(invalid_usage, "kernels cannot use connections of Penstock's");
}
Result make_virtual_device(int*, VirtualDevice*) {
  return failed(invalid_usage, "there is one device, and none to be joined with it");
}

}  // namespace

#define PENSTOCK_SHARED_FUNCTIONS                                                                  \
  accept, register_memory, register_dma_buf, deregister_memory, send, receive, flush, test, close, \
      close, close_listen, device_memory, receive_consumed, make_virtual_device

extern "C" {
extern __attribute__((visibility("default"))) const NetV10 ncclNetPlugin_v10;
extern __attribute__((visibility("default"))) const NetV11 ncclNetPlugin_v11;

const NetV10 ncclNetPlugin_v10{
    "penstock",
    [](Logger logger, Profiler) { return init(logger); },
    devices,
    properties_v10,
    [](int, void* handle, void** listening) { return listen(handle, listening); },
    [](int, void*, void* handle, void** sending, void** device_handle) {
      return connect(handle, sending, device_handle);
    },
    PENSTOCK_SHARED_FUNCTIONS};

const NetV11 ncclNetPlugin_v11{
    "penstock",
    [](void** context, std::uint64_t, void*, Logger logger, Profiler) {
      *context = nullptr;
      return init(logger);
    },
    devices,
    properties_v11,
    [](void*, int, void* handle, void** listening) { return listen(handle, listening); },
    [](void*, int, void* handle, void** sending, void** device_handle) {
      return connect(handle, sending, device_handle);
    },
    PENSTOCK_SHARED_FUNCTIONS,
    [](void*) { return success; },
    [](void*, void*) { return success; }};
}

}  // namespace penstock::ncclnet

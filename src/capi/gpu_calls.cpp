// penstock_comm_enqueue and related calls: collectives of GPUs.
#include "penstock/gpu.h"

#include "capi/comm.hpp"
#include "capi/options.hpp"
#include "capi/outcome.hpp"
#include "capi/reading_calls.hpp"

namespace penstock::capi {

namespace {

cuda::DevicePointer device_pointer(const void* pointer) {
  return reinterpret_cast<cuda::DevicePointer>(pointer);
}

Result<gpu::Reducing> read_reducing(const penstock_call_t& call, std::uint32_t ranks) {
  const auto reduction = PENSTOCK_TRY(read_reduction(call, ranks));
  const bool scales = reduction.operation() == coll::Operation::premultiplied_sum;
  if (scales && call.factor_at == nullptr) PENSTOCK_TRY(reduction.check_factor(call.factor));
  return gpu::Reducing{.type = reduction.type(),
                       .operation = reduction.operation(),
                       .factor = call.factor,
                       .factor_at = device_pointer(call.factor_at)};
}

/// The first stream's GPU becomes the communicator's.
Result<void> need_gpu_of(penstock_comm& comm, const char* call, cuda::Stream stream) {
  if (comm.gpu != nullptr) return comm.device->need_own(stream, call);
  comm.device = PENSTOCK_TRY(gpu::Device::of(stream));
  auto made = PENSTOCK_TRY(gpu::Communicator::open(*comm.core, comm.places, comm.device));
  const std::lock_guard<std::mutex> guard(comm.gpu_mutex);
  comm.gpu = std::move(made);
  if (comm.aborted) comm.gpu->abort();  // another thread aborted it meanwhile
  return {};
}

Result<void> enqueue(penstock_comm& comm, const penstock_call_t& call, cuda::Stream stream) {
  gpu::Call enqueued;
  PENSTOCK_TRY(read_problem(call, *comm.core, enqueued.problem));
  if (is_reduction(enqueued.problem.collective))
    enqueued.reducing = PENSTOCK_TRY(read_reducing(call, comm.core->ranks()));
  enqueued.name = call.name != nullptr ? call.name : name_of(enqueued.problem.collective);
  PENSTOCK_TRY(need_gpu_of(comm, enqueued.name.c_str(), stream));
  enqueued.input = device_pointer(call.input);
  enqueued.output = device_pointer(call.output);
  enqueued.fingerprint = fingerprint_of(enqueued.problem, call);
  enqueued.timeout_ns = call.timeout_ns;
  return comm.gpu->enqueue(enqueued, stream);
}

}  // namespace

}  // namespace penstock::capi

using namespace penstock;

extern "C" {

penstock_status_t penstock_comm_enqueue(penstock_comm_t* comm, const penstock_call_t* call,
                                        void* stream) {
  return capi::use(comm, [&](penstock_comm& handle) -> Result<void> {
    if (call == nullptr) return fail(ErrorCode::invalid_argument, "the call is NULL");
    return capi::enqueue(handle, PENSTOCK_TRY(capi::read_options(call)),
                         static_cast<cuda::Stream>(stream));
  });
}

penstock_status_t penstock_comm_error(penstock_comm_t* comm) {
  return capi::use(comm, [](penstock_comm& handle) {
    const std::lock_guard<std::mutex> guard(handle.gpu_mutex);
    if (handle.gpu == nullptr) return PENSTOCK_OK;
    const auto error = handle.gpu->error();
    return error ? capi::report(*error) : PENSTOCK_OK;
  });
}

int penstock_comm_busy(penstock_comm_t* comm) {
  bool busy = false;
  capi::use(comm, [&](penstock_comm& handle) {
    const std::lock_guard<std::mutex> guard(handle.gpu_mutex);
    busy = handle.gpu != nullptr && handle.gpu->is_busy();
    return PENSTOCK_OK;
  });
  return busy ? 1 : 0;
}

penstock_status_t penstock_comm_drain(penstock_comm_t* comm) {
  return capi::use(comm, [](penstock_comm& handle) {
    return handle.gpu == nullptr ? Result<void>() : handle.gpu->drain();
  });
}

penstock_status_t penstock_comm_abort(penstock_comm_t* comm) {
  return capi::use(comm, [](penstock_comm& handle) {
    const std::lock_guard<std::mutex> guard(handle.gpu_mutex);
    handle.aborted = true;
    if (handle.gpu != nullptr) handle.gpu->abort();
    return PENSTOCK_OK;
  });
}

}  // extern "C"

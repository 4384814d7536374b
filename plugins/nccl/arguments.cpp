#include "nccl/arguments.hpp"

#include <array>

#include "base/format.hpp"
#include "nccl/outcome.hpp"
#include "schedule/element.hpp"

namespace penstock::nccl {

namespace {

struct Type {
  std::uint64_t bytes;
  penstock_datatype_t name;
};
/// Indexed by ncclDataType_t.
constexpr std::array<Type, datatypes> types{{{1, PENSTOCK_INT8},
                                             {1, PENSTOCK_UINT8},
                                             {4, PENSTOCK_INT32},
                                             {4, PENSTOCK_UINT32},
                                             {8, PENSTOCK_INT64},
                                             {8, PENSTOCK_UINT64},
                                             {2, PENSTOCK_FLOAT16},
                                             {4, PENSTOCK_FLOAT32},
                                             {8, PENSTOCK_FLOAT64},
                                             {2, PENSTOCK_BFLOAT16},
                                             {1, PENSTOCK_FLOAT8_E4M3},
                                             {1, PENSTOCK_FLOAT8_E5M2}}};
/// Indexed by ncclRedOp_t.
constexpr std::array<penstock_operation_t, first_user_op> operations{
    PENSTOCK_SUM, PENSTOCK_PRODUCT, PENSTOCK_MAXIMUM, PENSTOCK_MINIMUM, PENSTOCK_AVERAGE};

bool is_type(int datatype) {
  return datatype >= 0 && datatype < datatypes;
}

template <class Format>
double value_at(const void* scalar) {
  return static_cast<double>(coll::loaded<Format>(scalar, 0));
}

}  // namespace

std::uint64_t bytes_of(int datatype) {
  return is_type(datatype) ? types[static_cast<std::size_t>(datatype)].bytes : 0;
}

Result check_datatype(const char* call, int datatype) {
  if (is_type(datatype)) return success;
  return failed(invalid_argument, fmt::format("{}: data type {} does not exist: ncclInt8 (0) to "
                                              "ncclFloat8e5m2 ({}) do",
                                              call, datatype, datatypes - 1));
}

Result check_root(const char* call, const ncclComm& comm, int root) {
  if (root >= 0 && root < comm.ranks) return success;
  return failed(invalid_argument, fmt::format("{}: rank {} of {} ranks", call, root, comm.ranks));
}

Result check_stream(const char* call, const ncclComm& comm, Stream stream) {
  if (comm.gpu == nullptr || comm.other != nullptr) return success;
  const gpu::Device::Scope scope(*comm.gpu);  // whose default stream a null stream is
  const auto own = comm.gpu->need_own(stream, call);
  return own ? success : failed(invalid_usage, own.error().message);
}

Result set_reduction(const char* call, ncclComm& comm, int datatype, int operation,
                     penstock_call_t& to) {
  if (const Result checked = check_datatype(call, datatype); checked != success) return checked;
  to.datatype = types[static_cast<std::size_t>(datatype)].name;
  if (operation >= 0 && operation < first_user_op) {
    to.operation = operations[static_cast<std::size_t>(operation)];
    return success;
  }
  const std::lock_guard<std::mutex> guard(comm.mutex);
  const auto index = static_cast<std::size_t>(operation - first_user_op);
  if (operation < 0 || index >= comm.operations.size() || !comm.operations[index].is_there)
    return failed(invalid_argument,
                  fmt::format("{}: operation {} does not exist: ncclSum (0) to ncclAvg (4) do, and "
                              "those that ncclRedOpCreatePreMulSum has made for this communicator",
                              call, operation));
  const UserOperation& made = comm.operations[index];
  if (made.datatype != datatype)
    return failed(invalid_argument,
                  fmt::format("{}: operation {} was made for data type {}, and the call's is {}",
                              call, operation, made.datatype, datatype));
  to.operation = PENSTOCK_PREMULTIPLIED_SUM;
  to.factor = made.factor;
  to.factor_at = made.factor_at;
  return success;
}

double read_scalar(int datatype, const void* scalar) {
  switch (datatype) {
    case 0:
      return value_at<coll::Native<std::int8_t>>(scalar);
    case 1:
      return value_at<coll::Native<std::uint8_t>>(scalar);
    case 2:
      return value_at<coll::Native<std::int32_t>>(scalar);
    case 3:
      return value_at<coll::Native<std::uint32_t>>(scalar);
    case 4:
      return value_at<coll::Native<std::int64_t>>(scalar);
    case 5:
      return value_at<coll::Native<std::uint64_t>>(scalar);
    case float16_type:
      return value_at<coll::Small<coll::Float16, std::uint16_t>>(scalar);
    case float32_type:
      return value_at<coll::Native<float>>(scalar);
    case float64_type:
      return value_at<coll::Native<double>>(scalar);
    case bfloat16_type:
      return value_at<coll::Small<coll::BFloat16, std::uint16_t>>(scalar);
    case e4m3_type:
      return value_at<coll::Small<coll::Float8E4M3, std::uint8_t>>(scalar);
    default:
      return value_at<coll::Small<coll::Float8E5M2, std::uint8_t>>(scalar);
  }
}

}  // namespace penstock::nccl

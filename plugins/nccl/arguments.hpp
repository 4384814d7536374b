// Converts NCCL's data types and operations to those of penstock/collectives.h.
#pragma once

#include "nccl/communicator.hpp"

namespace penstock::nccl {

/// Bytes of an element; 0 if there is no such type.
std::uint64_t bytes_of(int datatype);
/// Errors: invalid_argument; the message names the value found.
Result check_datatype(const char* call, int datatype);
Result check_root(const char* call, const ncclComm& comm, int root);
/// Errors: invalid_usage, where the stream belongs to another GPU than the communicator.
Result check_stream(const char* call, const ncclComm& comm, Stream stream);
Result set_reduction(const char* call, ncclComm& comm, int datatype, int operation,
                     penstock_call_t& to);
/// Reads a scalar of the type from host memory.
double read_scalar(int datatype, const void* scalar);

}  // namespace penstock::nccl

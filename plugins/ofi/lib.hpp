// Bindings to the libfabric that loaded us, and small helpers that all files here share.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include <cstdint>
#include <new>
#include <string>

#include "base/status.hpp"

namespace penstock::ofi {

inline constexpr const char* provider_name = "penstock";
inline constexpr std::uint32_t provider_version = FI_VERSION(0, 1);
/// Addresses are transport::Address; the high bit marks formats that belong to one provider.
inline constexpr std::uint32_t address_format = FI_PROV_SPECIFIC | 0x504eu;
inline constexpr std::uint32_t wire_protocol = FI_PROV_SPECIFIC | 0x504eu;

/// fi_allocinfo and fi_freeinfo of the loaded library. A plain reference would bind to a
/// compatibility version with an older layout of fi_info. Null if out of memory.
fi_info* allocate_info();
void free_info(fi_info* info);

/// Sends log messages to libfabric's logger under this provider's name, at level FI_LOG_LEVEL.
/// Without that variable errors and warnings go to standard error, as everywhere in Penstock.
void use_library_log(const fi_provider* provider);

/// Converts an error to -FI_E...
int errno_of(const Error& error);
/// Logs and converts an error, for calls that return a plain number.
int report(const Error& error);

/// Runs `body`, which may allocate through the standard library.
template <class Body>
int guarded(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

/// Stores a text and returns its number for prov_errno of completion errors. Each text is stored
/// once, until the process ends.
int remember_text(const std::string& text);
const char* remembered_text(int number);

}  // namespace penstock::ofi

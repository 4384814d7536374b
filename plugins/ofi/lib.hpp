// Bindings to the libfabric that loaded us, and small things that all files here share.
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

/// fi_allocinfo and fi_freeinfo of the loaded library: a plain reference would bind to a
/// compatibility version with an older layout of fi_info. Null when out of memory.
fi_info* allocate_info();
void free_info(fi_info* info);

/// Sends log messages to libfabric's logger under this provider's name, at the level FI_LOG_LEVEL.
/// Without FI_LOG_LEVEL errors and warnings go to standard error as everywhere in Penstock.
void use_library_log(const fi_provider* provider);

/// -FI_E... for an error of ours.
int errno_of(const Error& error);
/// Logs and converts, for calls that libfabric answers with a bare number.
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

/// Texts behind prov_errno of completion errors; each text is kept once, until the
/// process ends.
int remember_text(const std::string& text);
const char* remembered_text(int number);

}  // namespace penstock::ofi

// penstock_publish, _observe, _write, _read.
#include <algorithm>
#include <cstring>

#include "base/format.hpp"
#include "capi/attachment.hpp"
#include "capi/outcome.hpp"

namespace penstock::capi {

namespace {

constexpr std::uint64_t line_bytes = coherence::line_bytes;

/// Runs `body(memory)` if the bytes lie in the pool. `beside`: another pointer that must not be
/// NULL.
template <class Body>
penstock_status_t inside(penstock_pool_t* pool, const void* at, std::uint64_t bytes,
                         const void* beside, Body&& body) {
  return use(pool, [&](const penstock_pool& handle) -> Result<void> {
    if (beside == nullptr && bytes != 0)
      return fail(ErrorCode::invalid_argument, "{} bytes of private memory at NULL", bytes);
    const pool::Pool& attached = *handle.attachment->pool;
    const auto offset = attached.offset_of(at);
    if (!offset || attached.at(*offset, bytes) == nullptr)
      return fail(ErrorCode::invalid_argument, "{} bytes at {} do not lie in pool {}", bytes, at,
                  attached.info().spec);
    body(attached.memory());
    return {};
  });
}

/// Writes a part of one line; reads the rest and writes it back unchanged.
void write_within_line(const coherence::Memory& memory, std::byte* to, const std::byte* from,
                       std::uint64_t bytes) {
  alignas(line_bytes) std::byte line[line_bytes];
  const auto start = reinterpret_cast<std::uintptr_t>(to) % line_bytes;
  memory.observe_line(line, to - start);
  std::memcpy(line + start, from, bytes);
  memory.publish_line(to - start, line);
}

void write(const coherence::Memory& memory, std::byte* to, const std::byte* from,
           std::uint64_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(to) % line_bytes;
  if (start != 0) {
    const std::uint64_t head = std::min(bytes, line_bytes - start);
    write_within_line(memory, to, from, head);
    to += head;
    from += head;
    bytes -= head;
  }
  const std::uint64_t whole = bytes & ~(line_bytes - 1);
  if (whole != 0) memory.publish_bulk(to, from, whole);
  if (bytes != whole) write_within_line(memory, to + whole, from + whole, bytes - whole);
  memory.store_fence();
}

}  // namespace

}  // namespace penstock::capi

using namespace penstock;

extern "C" {

penstock_status_t penstock_publish(penstock_pool_t* pool, const void* at, uint64_t bytes) {
  return capi::inside(pool, at, bytes, at, [&](const coherence::Memory& memory) {
    if (bytes != 0) memory.write_back(at, bytes);
    memory.store_fence();
  });
}

penstock_status_t penstock_observe(penstock_pool_t* pool, const void* at, uint64_t bytes) {
  return capi::inside(pool, at, bytes, at, [&](const coherence::Memory& memory) {
    if (bytes != 0) memory.invalidate(at, bytes);
    memory.load_fence();
  });
}

penstock_status_t penstock_write(penstock_pool_t* pool, void* to, const void* from,
                                 uint64_t bytes) {
  return capi::inside(pool, to, bytes, from, [&](const coherence::Memory& memory) {
    capi::write(memory, static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  });
}

penstock_status_t penstock_read(penstock_pool_t* pool, void* to, const void* from, uint64_t bytes) {
  return capi::inside(pool, from, bytes, to, [&](const coherence::Memory& memory) {
    if (bytes != 0) memory.observe_bulk(to, from, bytes);
  });
}

}  // extern "C"

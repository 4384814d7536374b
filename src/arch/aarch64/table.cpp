// Plain stores and a clean to the point of coherency. stnp is only a hint and may leave the line
// dirty in a cache, so there is no partial non-temporal store (Features::partial_nt_store).
#include "arch/isa.hpp"
#include "arch/plain.hpp"

namespace penstock::arch::isa {
namespace {

/// Smallest data cache line, in bytes: what one dc instruction surely covers.
std::size_t cache_line() {
  std::uint64_t type;
  asm("mrs %0, ctr_el0" : "=r"(type));
  return std::size_t{4} << (type >> 16 & 15);
}

template <class Operation>
void for_each_line(const void* at, std::size_t bytes, Operation operation) {
  if (bytes == 0) return;
  static const std::size_t step = cache_line();
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  for (std::uintptr_t line = begin & ~(step - 1); line < begin + bytes; line += step) {
    operation(line);
  }
}

void clean_range(const void* at, std::size_t bytes) {
  for_each_line(at, bytes, [](std::uintptr_t line) {
    asm volatile("dc cvac, %0" : : "r"(line) : "memory");
  });
}

void clean_invalidate_range(const void* at, std::size_t bytes) {
  for_each_line(at, bytes, [](std::uintptr_t line) {
    asm volatile("dc civac, %0" : : "r"(line) : "memory");
  });
}

// Cache maintenance completes only at a dsb; a dmb would not wait for it.
void store_fence() {
  asm volatile("dsb sy" : : : "memory");
}
void full_fence() {
  asm volatile("dsb sy" : : : "memory");
}
void relax() {
  asm volatile("yield" : : : "memory");
}

void send_word(void* to, std::uint64_t value) {
  __atomic_store_n(static_cast<std::uint64_t*>(to), value, __ATOMIC_RELEASE);
  clean_range(to, sizeof value);
}

void send_bytes(void* to, const void* from, std::size_t bytes) {
  plain::store_copy(to, from, bytes);
  clean_range(to, bytes);
}

void store_line(void* to, const void* from) {
  plain::store_line(to, from);
}

void send_line(void* to, const void* from) {
  plain::store_line(to, from);
  clean_range(to, line_bytes);
}

void store_copy(void* to, const void* from, std::size_t bytes) {
  plain::store_copy(to, from, bytes);
}

void send_copy(void* to, const void* from, std::size_t bytes) {
  plain::store_copy(to, from, bytes);
  clean_range(to, bytes);
}

void store_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
  plain::store_tagged(to, from, bytes, first_tag);
}

void send_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
  plain::store_tagged(to, from, bytes, first_tag);
  clean_range(to, plain::tagged_lines(bytes) * line_bytes);
}

std::size_t load_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
  return plain::load_tagged(to, from, bytes, first_tag);
}

void load_line(void* to, const void* from) {
  plain::load_line(to, from);
}

}  // namespace

std::vector<Table> tables(const Features& features) {
  if (!features.dc_civac) return {};
  return {Table{
      .name = "aarch64",
      .write_back_range = clean_range,
      .invalidate_range = clean_invalidate_range,
      .store_fence = store_fence,
      .full_fence = full_fence,
      .nt_word = send_word,
      .nt_bytes = send_bytes,
      .nt_line = send_line,
      .nt_copy = send_copy,
      .store_copy = store_copy,
      .store_line = store_line,
      .send_line = send_line,
      .send_tagged = send_tagged,
      .send_tagged_limit = 0,
      .stream_line = send_line,
      .stream_tagged = send_tagged,
      .nt_tagged = send_tagged,
      .store_tagged = store_tagged,
      .load_tagged = load_tagged,
      .load_line = load_line,
      .relax = relax,
  }};
}

std::optional<FlushFunctions> flush_by(const Features&, Flush) {
  return std::nullopt;
}

}  // namespace penstock::arch::isa

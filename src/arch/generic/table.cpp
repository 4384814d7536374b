// Plain stores and C++ fences. There is no flush: features() says so, and coherence::bind refuses
// pools that need one.
#include <atomic>

#include "arch/isa.hpp"
#include "arch/plain.hpp"

namespace penstock::arch::generic {
namespace {

void no_range(const void*, std::size_t) {}
void release_fence() {
  std::atomic_thread_fence(std::memory_order_release);
}
void full_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
void relax() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void store_word(void* to, std::uint64_t value) {
  __atomic_store_n(static_cast<std::uint64_t*>(to), value, __ATOMIC_RELEASE);
}
void store_bytes(void* to, const void* from, std::size_t bytes) {
  plain::store_copy(to, from, bytes);
}
void store_line(void* to, const void* from) {
  plain::store_line(to, from);
}
void store_copy(void* to, const void* from, std::size_t bytes) {
  plain::store_copy(to, from, bytes);
}
void store_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
  plain::store_tagged(to, from, bytes, first_tag);
}
std::size_t load_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
  return plain::load_tagged(to, from, bytes, first_tag);
}
void load_line(void* to, const void* from) {
  plain::load_line(to, from);
}

}  // namespace

Table table() {
  return Table{
      .name = "generic",
      .write_back_range = no_range,
      .invalidate_range = no_range,
      .store_fence = release_fence,
      .full_fence = full_fence,
      .nt_word = store_word,
      .nt_bytes = store_bytes,
      .nt_line = store_line,
      .nt_copy = store_copy,
      .store_copy = store_copy,
      .store_line = store_line,
      .send_line = store_line,
      .send_tagged = store_tagged,
      .send_tagged_limit = 0,
      .stream_line = store_line,
      .stream_tagged = store_tagged,
      .nt_tagged = store_tagged,
      .store_tagged = store_tagged,
      .load_tagged = load_tagged,
      .load_line = load_line,
      .relax = relax,
  };
}

}  // namespace penstock::arch::generic

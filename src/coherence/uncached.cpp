// The mapping itself is uncacheable: stores go out by themselves, loads always ask the device.
// A mapping that combines writes (PAT WC) holds stores back until a fence, and its loads may run
// ahead; so `store_fence` and `load_fence` are fences all the same. Beside an uncached access they
// cost little.
#include "coherence/plain_ops.hpp"

namespace penstock::coherence {

namespace {

constexpr Ops plain = plain_ops();

std::uint64_t load_word(void* self, const void* from) {
  count_device_reads(self, from, sizeof(std::uint64_t));
  return plain.load_word(self, from);
}

void load_line(void* self, void* to, const void* from) {
  count_device_reads(self, from, line_bytes);
  plain.load_line(self, to, from);
}

void load_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  count_device_reads(self, from, bytes);
  plain.load_bulk(self, to, from, bytes);
}

std::size_t load_tagged(void* self, void* to, const void* from, std::size_t bytes,
                        std::uint64_t first_tag) {
  count_device_reads(self, from, (bytes + tagged_bytes - 1) / tagged_bytes * line_bytes);
  return plain.load_tagged(self, to, from, bytes, first_tag);
}

}  // namespace

constexpr Ops uncached_ops = [] {
  Ops ops = plain;
  ops.load_word = load_word;
  ops.load_line = load_line;
  ops.load_bulk = load_bulk;
  ops.load_tagged = load_tagged;
  return ops;
}();

}  // namespace penstock::coherence

// No coherence between nodes. Writers send lines to the device, readers drop their copies first.
// Two tables: the fastest way of this CPU, and write-back by a requested instruction.
#include "coherence/plain_ops.hpp"

namespace penstock::coherence {
namespace {

void publish_word(void* self, void* to, std::uint64_t value) {
  table(self).nt_word(to, value);
}

void publish_bytes(void* self, void* to, const void* from, std::size_t bytes) {
  table(self).nt_bytes(to, from, bytes);
}

void publish_line(void* self, void* to, const void* from) {
  table(self).nt_line(to, from);
}

void send_line(void* self, void* to, const void* from) {
  table(self).send_line(to, from);
}

void publish_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  table(self).nt_copy(to, from, bytes);
}

void publish_tagged(void* self, void* to, const void* from, std::size_t bytes,
                    std::uint64_t first_tag) {
  const arch::Table& with = table(self);
  (bytes <= with.send_tagged_limit ? with.send_tagged : with.nt_tagged)(to, from, bytes, first_tag);
}

void stream_line(void* self, void* to, const void* from) {
  table(self).stream_line(to, from);
}

void stream_tagged(void* self, void* to, const void* from, std::size_t bytes,
                   std::uint64_t first_tag) {
  table(self).stream_tagged(to, from, bytes, first_tag);
}

void write_back_line(void* self, void* to, const void* from) {
  table(self).store_line(to, from);
  binding(self).write_back(to, line_bytes);
}

void write_back_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  table(self).store_copy(to, from, bytes);
  binding(self).write_back(to, bytes);
}

void write_back_tagged(void* self, void* to, const void* from, std::size_t bytes,
                       std::uint64_t first_tag) {
  table(self).store_tagged(to, from, bytes, first_tag);
  binding(self).write_back(to, (bytes + tagged_bytes - 1) / tagged_bytes * line_bytes);
}

void write_back(void* self, const void* at, std::size_t bytes) {
  compiler_barrier();
  binding(self).write_back(at, bytes);
}

void invalidate(void* self, const void* at, std::size_t bytes) {
  compiler_barrier();
  count_device_reads(self, at, bytes);
  binding(self).invalidate(at, bytes);
}

void fetch(void*, const void* at, std::size_t bytes) {
  const auto* line = static_cast<const std::byte*>(at);
  for (const auto* end = line + bytes; line < end; line += line_bytes) __builtin_prefetch(line);
}

}  // namespace

constexpr Ops software_ops = [] {
  Ops ops = plain_ops();
  ops.publish_word = publish_word;
  ops.publish_bytes = publish_bytes;
  ops.publish_line = publish_line;
  ops.send_line = send_line;
  ops.publish_bulk = publish_bulk;
  ops.publish_tagged = publish_tagged;
  ops.stream_line = stream_line;
  ops.stream_tagged = stream_tagged;
  ops.write_back = write_back;
  ops.invalidate = invalidate;
  ops.fetch = fetch;
  return ops;
}();

constexpr Ops software_write_back_ops = [] {
  Ops ops = software_ops;
  ops.send_line = write_back_line;
  ops.publish_bulk = write_back_bulk;
  ops.publish_tagged = write_back_tagged;
  ops.stream_line = write_back_line;
  ops.stream_tagged = write_back_tagged;
  return ops;
}();

}  // namespace penstock::coherence

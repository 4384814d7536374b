#include "steps.hpp"

#include <signal.h>
#include <unistd.h>

#include <mutex>
#include <type_traits>
#include <vector>

#include "coherence/coherence.hpp"

namespace penstock::crash {
namespace {

using coherence::FlushChoice;
using coherence::line_bytes;
using coherence::Memory;
using coherence::Mode;

struct Count {
  bool armed = false;
  Deed deed = Deed::none;
  std::uint64_t at = 0, steps = 0;
  Operations operations;
  std::function<void(const void*)> after_line_load;
};
// Thread-local, so that an attachment's heartbeat thread does not count: it is no part of the
// protocol under test.
thread_local Count count;

void step() {
  if (!count.armed || ++count.steps != count.at) return;
  if (count.deed == Deed::die) ::kill(::getpid(), SIGKILL);
  if (count.deed == Deed::stop) ::raise(SIGSTOP);
}

std::uint64_t lines_of(std::size_t bytes) {
  return (bytes + line_bytes - 1) / line_bytes;
}

void publishing(std::size_t bytes) {
  ++count.operations.publishes;
  count.operations.lines += lines_of(bytes);
  step();
}

const Memory& inner(void* self) {
  return *static_cast<const Memory*>(self);
}

void publish_word(void* self, void* to, std::uint64_t value) {
  publishing(8);
  inner(self).publish_word(to, value);
}

void publish_bytes(void* self, void* to, const void* from, std::size_t bytes) {
  publishing(bytes);
  inner(self).publish_bytes(to, from, bytes);
}

void publish_line(void* self, void* to, const void* from) {
  publishing(line_bytes);
  inner(self).publish_line(to, from);
}

void send_line(void* self, void* to, const void* from) {
  publishing(line_bytes);
  inner(self).send_line(to, from);
}

void publish_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  publishing(bytes);
  const std::size_t half = lines_of(bytes) / 2 * line_bytes;
  if (half == 0) return inner(self).publish_bulk(to, from, bytes);
  inner(self).publish_bulk(to, from, half);
  step();
  inner(self).publish_bulk(static_cast<std::byte*>(to) + half,
                           static_cast<const std::byte*>(from) + half, bytes - half);
}

void stream_line(void* self, void* to, const void* from) {
  publishing(line_bytes);
  inner(self).stream_line(to, from);
}

template <auto operation>
void put_tagged(void* self, void* to, const void* from, std::size_t bytes, std::uint64_t line_tag) {
  using coherence::Site;
  publishing(bytes);
  const std::size_t lines = bytes / coherence::tagged_bytes / 2;
  if (lines == 0) return (inner(self).*operation)(to, from, bytes, line_tag, Site::here());
  const std::size_t half = lines * coherence::tagged_bytes;
  (inner(self).*operation)(to, from, half, line_tag, Site::here());
  step();
  (inner(self).*operation)(static_cast<std::byte*>(to) + lines * line_bytes,
                           static_cast<const std::byte*>(from) + half, bytes - half,
                           line_tag + lines, Site::here());
}

void write_back(void* self, const void* at, std::size_t bytes) {
  publishing(bytes);
  inner(self).write_back(at, bytes);
}

void store_fence(void* self) {
  inner(self).store_fence();
}
void full_fence(void* self) {
  inner(self).full_fence();
}

void invalidate(void* self, const void* at, std::size_t bytes) {
  count.operations.invalidations += lines_of(bytes);
  inner(self).invalidate(at, bytes);
}

void fetch(void* self, const void* at, std::size_t bytes) {
  inner(self).fetch(at, bytes);
}

void load_fence(void* self) {
  inner(self).load_fence();
}
std::uint64_t load_word(void* self, const void* from) {
  return inner(self).load_word(from);
}
void load_line(void* self, void* to, const void* from) {
  inner(self).load_line(to, from);
  if (count.after_line_load) count.after_line_load(from);
}
void load_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  inner(self).load_bulk(to, from, bytes);
}
std::size_t load_tagged(void* self, void* to, const void* from, std::size_t bytes,
                        std::uint64_t line_tag) {
  return inner(self).load_tagged(to, from, bytes, line_tag);
}

std::uint64_t device_reads(void* self) {
  return inner(self).device_reads();
}

const coherence::Ops counted_ops = {
    .publish_word = publish_word,
    .publish_bytes = publish_bytes,
    .publish_line = publish_line,
    .send_line = send_line,
    .publish_bulk = publish_bulk,
    .publish_tagged = put_tagged<&Memory::publish_tagged>,
    .stream_line = stream_line,
    .stream_tagged = put_tagged<&Memory::stream_tagged>,
    .write_back = write_back,
    .store_fence = store_fence,
    .invalidate = invalidate,
    .fetch = fetch,
    .load_fence = load_fence,
    .load_word = load_word,
    .load_line = load_line,
    .load_bulk = load_bulk,
    .load_tagged = load_tagged,
    .full_fence = full_fence,
    .device_reads = device_reads,
};

/// Returns a Memory that outlives every pool, since pools keep its address.
Memory* lasting(const Memory& memory) {
  static std::mutex mutex;
  static std::vector<Memory*> all;
  const std::lock_guard lock(mutex);
  all.push_back(new Memory(memory));
  return all.back();
}

}  // namespace

void arm(std::uint64_t at, Deed deed) {
  count.armed = true;
  count.deed = deed;
  count.at = at;
  count.steps = 0;
}

std::uint64_t disarm() {
  count.armed = false;
  return count.steps;
}

void after_line_load(std::function<void(const void*)> hook) {
  count.after_line_load = std::move(hook);
}

Operations operations() {
  return count.operations;
}

}  // namespace penstock::crash

// The mangled name of coherence::bind(Mode, FlushChoice), for --wrap.
#define PENSTOCK_BIND "_ZN8penstock9coherence4bindENS0_4ModeENS0_11FlushChoiceE"
namespace penstock::crash {

static_assert(std::is_same_v<decltype(&coherence::bind), Result<Memory> (*)(Mode, FlushChoice)>,
              "coherence::bind has changed: so has its linker name, here and in CMakeLists.txt");

Result<Memory> real_bind(Mode mode, FlushChoice flush) asm("__real_" PENSTOCK_BIND);
Result<Memory> counted_bind(Mode mode, FlushChoice flush) asm("__wrap_" PENSTOCK_BIND);

Result<Memory> counted_bind(Mode mode, FlushChoice flush) {
  auto memory = real_bind(mode, flush);
  if (!memory) return memory;
  return Memory(memory->mode(), &counted_ops, lasting(*memory));
}

}  // namespace penstock::crash

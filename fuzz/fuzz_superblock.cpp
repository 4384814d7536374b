// Files that claim to be the parts of a pool.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <vector>

#include "device/mapping.hpp"
#include "device/superblock.hpp"
#include "fuzz/expect.hpp"
#include "fuzz/input.hpp"
#include "fuzz/virtual_time.hpp"
#include "pool/layout.hpp"
#include "pool/members.hpp"

namespace penstock::fuzz {
namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint32_t max_parts = 3;

/// A file in memory for each part, made once.
class Files {
 public:
  Files() {
    for (std::uint32_t i = 0; i < max_parts; ++i) {
      fds_[i] = ::memfd_create("part", MFD_CLOEXEC);
      expect(fds_[i] >= 0);
      paths_[i] = fmt::format("/proc/self/fd/{}", fds_[i]);
    }
  }
  void resize(std::uint32_t part, std::uint64_t bytes) const {
    expect(::ftruncate(fds_[part], static_cast<off_t>(bytes)) == 0);
  }
  void write(std::uint32_t part, const void* bytes, std::size_t count) const {
    expect(::pwrite(fds_[part], bytes, count, 0) == static_cast<ssize_t>(count));
  }
  std::string spec(std::uint32_t parts) const {
    std::string joined = paths_[0];
    for (std::uint32_t i = 1; i < parts; ++i) joined += "," + paths_[i];
    return joined;
  }
  const std::string& path(std::uint32_t part) const { return paths_[part]; }

 private:
  std::array<int, max_parts> fds_{};
  std::array<std::string, max_parts> paths_;
};

const Files& files() {
  static const Files made;
  return made;
}

/// The superblock that penstock pool create would write.
device::Superblock honest(std::uint32_t parts, Input& input) {
  device::Superblock s{.magic = device::magic,
                       .layout_version = device::layout_version,
                       .header_bytes = device::page_bytes,
                       .pool_id = 0x1234,
                       .bytes = (16 + 2 * input.below(8)) * parts * mib,
                       .mode = 1 + static_cast<std::uint32_t>(input.below(4)),
                       .part_count = parts};
  s.max_processes = 1 + static_cast<std::uint32_t>(input.below(64));
  s.max_nodes = 1 + static_cast<std::uint32_t>(input.below(16));
  s.data_offset = parts > 1 ? device::huge_page_bytes : 0;
  s.part_bytes = s.data_offset + s.bytes / parts;
  s.stripe_bytes = device::stripe_bytes_for(s.bytes / parts, parts, device::huge_page_bytes);
  need(pool::lay_out(s));
  return s;
}

/// Overwrites numbers; with `again` the tables are laid out for the new numbers.
void lie(device::Superblock& s, Input& input) {
  for (auto changes = input.below(5); changes > 0; --changes) {
    if (input.flag()) {
      auto* words = reinterpret_cast<std::uint64_t*>(&s);
      words[input.below(sizeof s / 8)] = input.lie(s.bytes);
    } else {
      auto* words = reinterpret_cast<std::uint32_t*>(&s);
      words[input.below(sizeof s / 4)] = static_cast<std::uint32_t>(input.lie(64));
    }
  }
  const bool again = input.flag();
  if (again) (void)pool::lay_out(s);
}

void write_part(std::uint32_t part, device::Superblock s, Input& input) {
  s.part_index = part;
  lie(s, input);
  const std::uint64_t sizes[] = {s.part_bytes, s.part_bytes - 4096, 0, 100, 4096, mib, 1ull << 32};
  std::uint64_t bytes = sizes[input.below(std::size(sizes))];
  if (bytes > 1ull << 40) bytes = 16 * mib;
  files().resize(part, bytes);
  const bool checksummed = input.flag();
  if (bytes < sizeof s) return;
  if (!checksummed || bytes < device::page_bytes) {
    files().write(part, &s, sizeof s);
    return;
  }
  const auto open = device::open_parts(files().path(part), device::Access::write);
  need(open);
  need(device::write_superblock(open->front(), s));
}

void look(const std::string& spec) {
  const auto info = pool::inspect(spec);
  if (!info) expect(is_told(info.error()));
  const auto attached = pool::Pool::attach({.spec = spec, .observer = true});
  if (!attached) return expect(is_told(attached.error()));
  expect(info.has_value());
  pool::Pool& pool = **attached;
  expect(pool.bytes() == info->bytes);
  expect(pool.at(info->arena_offset, info->arena_bytes) != nullptr);
  expect(pool.members().processes().empty());
  std::uint64_t last = 0;
  pool.memory().observe_bulk(&last, pool.base() + pool.bytes() - 64, 8);
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  using namespace penstock::fuzz;
  restart_time();
  Input input(data, size);
  const auto parts = 1 + static_cast<std::uint32_t>(input.below(max_parts));
  const bool raw = input.below(16) == 15;
  const device::Superblock s = honest(parts, input);
  for (std::uint32_t part = 0; part < parts; ++part) write_part(part, s, input);
  if (raw) {
    const std::string_view bytes = input.text(sizeof s);
    files().write(0, bytes.data(), bytes.size());
  }
  look(files().spec(parts));
  for (std::uint32_t part = 0; part < parts; ++part) files().resize(part, 0);
  return 0;
}

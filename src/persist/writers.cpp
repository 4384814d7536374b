#include "persist/writers.hpp"

#include <algorithm>
#include <cstddef>

#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::persist {

namespace {

constexpr const char* writers_name = "penstock.writers";
constexpr std::uint32_t max_writers = 1u << 20;

}  // namespace

arena::Lifetime lifetime_in(const pool::Pool& pool) {
  return pool.device().durability() == device::Durability::none ? arena::Lifetime::pool
                                                                : arena::Lifetime::persistent;
}

std::string log_name(const WriterLine& writer) {
  return fmt::format("penstock.log.{:x}.{}", writer.owner, writer.log);
}

Result<Writers> Writers::from(arena::Arena& arena, const arena::Object& object) {
  const std::uint64_t lines = object.bytes / line_bytes;
  if (lines == 0 || lines > max_writers || object.bytes % line_bytes != 0)
    return fail(
        ErrorCode::wrong_format,
        "object \"{}\" of pool {} has {} bytes, which no table of writers has: the pool was "
        "overwritten; save what it holds and recreate it: penstock pool create {} "
        "--overwrite",
        writers_name, arena.pool().info().spec, object.bytes,
        base::shell_quote(arena.pool().info().spec));
  const auto device = PENSTOCK_TRY(Device::of(arena.pool()));
  return Writers(device, object, arena.pool().info().id);
}

Result<std::optional<Writers>> Writers::find(arena::Arena& arena) {
  const auto object = arena.open(writers_name);
  if (!object && object.error().code == ErrorCode::not_found) return std::optional<Writers>();
  if (!object) return unexpected(object.error());
  return std::optional<Writers>(PENSTOCK_TRY(from(arena, *object)));
}

Result<Writers> Writers::find_or_make(arena::Arena& arena) {
  const std::uint64_t lines = arena.pool().info().max_processes;
  const auto found = PENSTOCK_TRY(find(arena));
  if (found) return *found;
  const auto object = PENSTOCK_TRY(arena.create(
      writers_name, lines * line_bytes,
      {.lifetime = lifetime_in(arena.pool()), .alignment = page_bytes, .open_existing = true}));
  return from(arena, object);
}

WriterLine Writers::load(std::uint32_t number) const {
  WriterLine line;
  device_.load_line(place(number), &line);
  const bool whole =
      line.magic == writer_magic && line.checksum == checksum_of(line, key_ + number);
  return whole ? line : WriterLine{};
}

std::vector<WriterLine> Writers::all() const {
  device_.invalidate(place(0), count_ * line_bytes);
  device_.load_fence();
  std::vector<WriterLine> lines;
  lines.reserve(count_);
  for (std::uint32_t number = 0; number < count_; ++number) lines.push_back(load(number));
  return lines;
}

WriterLine Writers::read(std::uint32_t number) const {
  if (number >= count_) return {};
  device_.invalidate(place(number), line_bytes);
  device_.load_fence();
  return load(number);
}

void Writers::put(std::uint32_t number, WriterLine line) const {
  line.magic = writer_magic;
  line.checksum = checksum_of(line, key_ + number);
  device_.publish_line(place(number), &line);  // pairs with read(), all()
  device_.full_fence();                        // before there is a log of that name
}

void Writers::erase(std::uint32_t number) const {
  device_.publish_word(place(number) + offsetof(WriterLine, checksum), 0);
}

}  // namespace penstock::persist

#include "persist/object_version.hpp"

#include <charconv>

#include "base/format.hpp"
#include "persist/writers.hpp"

namespace penstock::persist {

namespace {

constexpr std::string_view prefix = "penstock.version.";

std::string version_name(const arena::Object& object) {
  return fmt::format("{}{:x}", prefix, object.generation);
}

}  // namespace

Result<ObjectVersion> ObjectVersion::from(arena::Arena& arena, const arena::Object& made) {
  if (made.bytes != 2 * line_bytes)
    return fail(ErrorCode::wrong_format,
                "object \"{}\" of pool {} has {} bytes, and a version has {}: the pool was "
                "overwritten; save what it holds and recreate it: penstock pool create {} "
                "--overwrite",
                made.name, arena.pool().info().spec, made.bytes, 2 * line_bytes,
                base::shell_quote(arena.pool().info().spec));
  const auto device = PENSTOCK_TRY(Device::of(arena.pool()));
  return ObjectVersion(device, made, arena.pool().info().id);
}

Result<std::optional<ObjectVersion>> ObjectVersion::find(arena::Arena& arena,
                                                         const arena::Object& object) {
  const auto found = arena.open(version_name(object));
  if (!found && found.error().code == ErrorCode::not_found) return std::optional<ObjectVersion>();
  if (!found) return unexpected(found.error());
  return std::optional<ObjectVersion>(PENSTOCK_TRY(from(arena, *found)));
}

Result<ObjectVersion> ObjectVersion::find_or_make(arena::Arena& arena,
                                                  const arena::Object& object) {
  const auto lifetime = PENSTOCK_TRY(arena.lifetime(object));
  if (lifetime == arena::Lifetime::process)
    return fail(ErrorCode::invalid_argument,
                "object \"{}\" ends with the process that made it, so no transaction on it can be "
                "undone then: make it of lifetime pool or persistent",
                object.name);
  const auto found = PENSTOCK_TRY(find(arena, object));
  if (found) return *found;
  const auto made =
      PENSTOCK_TRY(arena.create(version_name(object), ObjectVersion::object_bytes,
                                {.lifetime = lifetime_in(arena.pool()), .open_existing = true}));
  return from(arena, made);
}

std::optional<std::uint64_t> ObjectVersion::generation_in(std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  std::uint64_t generation = 0;
  const auto read = std::from_chars(name.data() + prefix.size(), end, generation, 16);
  return read.ec == std::errc() && read.ptr == end ? std::optional(generation) : std::nullopt;
}

std::optional<arena::Object> ObjectVersion::held_in(const arena::Arena& arena) const {
  return arena.find(slot_, generation_);
}

ObjectVersion::State ObjectVersion::read() const {
  const auto line = lines_.latest();
  if (!line) return {};
  return {line->step, line->words[0], line->words[1], line->words[2]};
}

ObjectVersion::State ObjectVersion::publish(const State& now, std::uint64_t version,
                                            std::uint64_t owner, std::uint64_t writer) const {
  PairLine line;
  line.words[0] = version;
  line.words[1] = owner;
  line.words[2] = writer;
  lines_.publish_line(now.step + 1, line);  // pairs with read()
  return {now.step + 1, version, owner, writer};
}

}  // namespace penstock::persist

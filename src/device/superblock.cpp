#include "device/superblock.hpp"

#include <cstring>

#include "base/checked.hpp"
#include "base/checksum.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "device/mapping.hpp"

namespace penstock::device {

namespace {

std::uint64_t checksum_of(const Superblock& superblock) {
  return base::xxh64(&superblock, offsetof(Superblock, checksum), superblock.layout_version);
}

Result<coherence::View> view_of(const Mapping& header, const OpenPart& part) {
  return coherence::cautious_view(
      {.base = header.base(), .bytes = header.bytes(), .path = part.part.path});
}

std::string recreate(const std::string& spec) {
  return fmt::format("detach everyone and recreate it: penstock pool create {} --overwrite",
                     base::shell_quote(spec));
}

/// A file is never overwritten, so for a file the advice names another path.
std::string how_to_make(const OpenPart& part, const std::string& spec) {
  return part.device ? fmt::format("make one: penstock pool create {}", base::shell_quote(spec))
                     : "make one under another name: penstock pool create SPEC --size 2G";
}

Result<void> check_header(const OpenPart& part, const Superblock& s, const std::string& spec) {
  const std::string& path = part.part.path;
  if (s.magic != magic) {
    return fail(ErrorCode::wrong_format,
                "{} is not a Penstock pool (it begins with {:#018x}, needed {:#018x}); {}", path,
                s.magic, magic, how_to_make(part, spec));
  }
  if (s.layout_version != layout_version) {
    return fail(ErrorCode::wrong_format,
                "{} has layout version {}, this Penstock needs {}; {}, or use the Penstock that "
                "made it",
                path, s.layout_version, layout_version, recreate(spec));
  }
  if (s.checksum != checksum_of(s)) {
    return fail(ErrorCode::wrong_format,
                "the superblock of {} is damaged (checksum {:#018x}, needed {:#018x}); {}", path,
                s.checksum, checksum_of(s), recreate(spec));
  }
  return {};
}

/// Checks what a checksum cannot prove: a faulty writer can checksum nonsense.
bool geometry_is_sound(const Superblock& s, LayOut lay_out) {
  if (s.header_bytes != page_bytes || s.pool_id == 0) return false;
  if (s.part_count < 1 || s.part_count > max_parts || s.part_index >= s.part_count) return false;
  if (s.mode < 1 || s.mode > 4 || s.sparse > 1) return false;
  if (s.bytes < min_pool_bytes || s.bytes % (s.part_count * huge_page_bytes) != 0) return false;
  const std::uint64_t data_bytes = s.bytes / s.part_count;
  const auto part_bytes = base::checked_add(s.data_offset, data_bytes);
  if (!part_bytes || s.part_bytes != *part_bytes) return false;
  if (s.data_offset % page_bytes != 0 || (s.part_count > 1) != (s.data_offset > 0)) return false;
  if (s.stripe_bytes < huge_page_bytes || s.stripe_bytes % huge_page_bytes != 0) return false;
  if (s.stripe_bytes < data_bytes / max_mappings) return false;
  Superblock expected = s;
  if (!lay_out(expected)) return false;
  return std::memcmp(&expected, &s, sizeof s) == 0;
}

Result<void> check_length(const OpenPart& part, const Superblock& s, const std::string& spec) {
  if (part.bytes >= s.part_bytes) return {};
  return fail(ErrorCode::wrong_format, "{} is truncated: it has {}, its superblock says {}; {}",
              part.part.path, base::format_bytes(part.bytes), base::format_bytes(s.part_bytes),
              recreate(spec));
}

/// `first` and `other` may differ in their part index only.
Result<void> check_sibling(const OpenPart& part, const Superblock& first, const Superblock& other,
                           std::uint32_t position) {
  const std::string& path = part.part.path;
  if (other.pool_id != first.pool_id) {
    return fail(ErrorCode::mismatch,
                "{} is part of another pool (id {:#x}, needed {:#x}); name the parts as they were "
                "named at creation; those of this host: penstock pool ls",
                path, other.pool_id, first.pool_id);
  }
  if (other.part_index != position) {
    return fail(ErrorCode::mismatch,
                "{} is part {} of its pool but stands at place {}; name the parts in the order of "
                "their creation",
                path, other.part_index, position);
  }
  Superblock aligned = other;
  aligned.part_index = first.part_index;
  aligned.checksum = first.checksum;
  if (std::memcmp(&aligned, &first, sizeof first) != 0) {
    return fail(ErrorCode::wrong_format,
                "the superblocks of {} and of part 0 disagree; recreate the pool: penstock pool "
                "create SPEC --overwrite",
                path);
  }
  return {};
}

}  // namespace

bool is_whole(const Superblock& superblock, LayOut lay_out) {
  return superblock.magic == magic && superblock.layout_version == layout_version &&
         superblock.checksum == checksum_of(superblock) && geometry_is_sound(superblock, lay_out);
}

Result<std::optional<Superblock>> read_superblock(const OpenPart& part) {
  if (part.bytes < page_bytes) return std::optional<Superblock>{};
  auto header = PENSTOCK_TRY(map_header(part, Access::read));
  auto view = PENSTOCK_TRY(view_of(header, part));
  Superblock superblock;
  // a superblock that is being written or wiped is torn for a moment
  constexpr int attempts = 64;
  for (int i = 0; i < attempts; ++i) {
    view.memory.observe_bulk(&superblock, view.base, sizeof superblock);
    if (superblock.magic != magic || superblock.checksum == checksum_of(superblock)) break;
  }
  return std::optional<Superblock>{superblock};
}

Result<void> write_superblock(const OpenPart& part, const Superblock& contents) {
  auto header = PENSTOCK_TRY(map_header(part, Access::write));
  auto view = PENSTOCK_TRY(view_of(header, part));
  Superblock superblock = contents;
  superblock.checksum = checksum_of(superblock);
  const coherence::Memory& memory = view.memory;
  // The magic comes last, as one word, which is never torn: a process that finds it also finds the
  // rest and the tables, even if the writer has died meanwhile.
  superblock.magic = 0;
  static_assert(offsetof(Superblock, magic) == 0);
  memory.publish_bulk(view.base, &superblock, sizeof superblock);
  memory.store_fence();
  memory.publish_word(view.base, magic);
  memory.store_fence();
  return {};
}

Result<void> wipe_superblock(const OpenPart& part) {
  auto header = PENSTOCK_TRY(map_header(part, Access::write));
  auto view = PENSTOCK_TRY(view_of(header, part));
  view.memory.publish_word(view.base, 0);  // without the magic the rest has no meaning
  view.memory.store_fence();
  return {};
}

Result<Superblock> check_superblocks(const std::vector<OpenPart>& parts, const std::string& spec,
                                     LayOut lay_out) {
  Superblock first;
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    auto read = PENSTOCK_TRY(read_superblock(parts[i]));
    if (!read) {
      return fail(ErrorCode::wrong_format,
                  "{} is not a Penstock pool (it has {} B, a superblock alone has {}); {}",
                  parts[i].part.path, parts[i].bytes, page_bytes, how_to_make(parts[i], spec));
    }
    const Superblock& here = *read;
    PENSTOCK_TRY(check_header(parts[i], here, spec));
    if (!geometry_is_sound(here, lay_out)) {
      return fail(ErrorCode::wrong_format, "the geometry in the superblock of {} is impossible; {}",
                  parts[i].part.path, recreate(spec));
    }
    if (here.part_count != parts.size()) {
      return fail(ErrorCode::mismatch,
                  "{} belongs to a pool of {} parts, {} were named in \"{}\"; name all parts, "
                  "joined by commas, in the order of their creation",
                  parts[i].part.path, here.part_count, parts.size(), spec);
    }
    if (i == 0) first = here;
    PENSTOCK_TRY(check_sibling(parts[i], first, here, i));
    PENSTOCK_TRY(check_length(parts[i], here, spec));
  }
  return first;
}

}  // namespace penstock::device

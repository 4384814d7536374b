#include "device/creation.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/env.hpp"
#include "base/format.hpp"
#include "device/mapping.hpp"

namespace penstock::device {

namespace {

constexpr std::uint64_t max_pool_bytes = 1ull << 48;  // what processors can address

std::string how_to_replace(const std::string& spec) {
  return fmt::format("use it, or replace it by: penstock pool create {} --overwrite",
                     base::shell_quote(spec));
}

bool is_pool(const OpenPart& part) {
  const auto superblock = read_superblock(part);
  return superblock && *superblock && (*superblock)->magic == magic;
}

/// Replaces only pools: --overwrite on a mistyped path must not cost a file.
Result<void> check_replaceable(const Part& part, const CreateOptions& options) {
  switch (file_kind(part)) {
    case FileKind::absent:
    case FileKind::device:
      return {};
    case FileKind::other:
      return fail(ErrorCode::invalid_argument,
                  "{} is neither a file nor a device; name another path", part.path);
    case FileKind::regular:
      break;
  }
  auto open = PENSTOCK_TRY(open_part(part, Access::read, options.spec));
  if (!is_pool(open) && open.bytes > 0) {
    return fail(ErrorCode::already_exists,
                "{} exists and is not a Penstock pool; name another path, or remove it yourself: "
                "rm {}",
                part.path, base::shell_quote(part.path));
  }
  if (options.overwrite) return {};
  if (open.bytes == 0) {
    return fail(ErrorCode::already_exists,
                "{} is an empty file; put a pool in its place: penstock pool create {} --size 2G "
                "--overwrite",
                part.path, base::shell_quote(options.spec));
  }
  return fail(ErrorCode::already_exists, "{} exists; {}", part.path, how_to_replace(options.spec));
}

/// The size of a device; for a file, the part size of the pool to be replaced, 0 if there is none.
/// A superblock that is damaged or of another layout may hold any number: then the file's length
/// counts.
std::uint64_t existing_bytes(const Part& part, const CreateOptions& options, LayOut lay_out) {
  if (file_kind(part) == FileKind::absent) return 0;
  const auto open = open_part(part, Access::read, options.spec);
  if (!open) return 0;
  if (open->device) return open->bytes;
  const auto superblock = read_superblock(*open);
  if (!superblock || !*superblock) return 0;
  return is_whole(**superblock, lay_out) ? (*superblock)->part_bytes : open->bytes;
}

/// The size of a pool whose parts are all as large as the smallest.
Result<std::uint64_t> existing_bytes(const std::vector<Part>& parts, const CreateOptions& options,
                                     std::uint64_t data_offset, std::uint64_t unit,
                                     LayOut lay_out) {
  std::uint64_t smallest = UINT64_MAX;
  for (const Part& part : parts)
    smallest = std::min(smallest, existing_bytes(part, options, lay_out));
  if (smallest == 0) {
    return fail(ErrorCode::invalid_argument,
                "pool {} needs a size; run: penstock pool create {} --size 2G{}", options.spec,
                base::shell_quote(options.spec), options.overwrite ? " --overwrite" : "");
  }
  const std::uint64_t usable = smallest > data_offset ? smallest - data_offset : 0;
  return usable / unit * unit * parts.size();
}

Result<void> check_device_free(const OpenPart& part, const CreateOptions& options) {
  if (!is_pool(part)) return {};
  if (options.overwrite) return {};
  return fail(ErrorCode::already_exists, "{} holds a pool; {}", part.part.path,
              how_to_replace(options.spec));
}

Result<void> check_size(const CreateOptions& options, std::uint64_t unit) {
  if (options.bytes < min_pool_bytes) {
    return fail(ErrorCode::invalid_argument,
                "{} asked for, a pool has at least {}; give --size {}M",
                base::format_bytes(options.bytes), base::format_bytes(min_pool_bytes),
                min_pool_bytes >> 20);
  }
  if (options.bytes > max_pool_bytes) {
    return fail(ErrorCode::invalid_argument, "{} asked for, a pool has at most {}; give --size {}",
                base::format_bytes(options.bytes), base::format_bytes(max_pool_bytes),
                max_pool_bytes / unit * unit);
  }
  if (options.bytes % unit != 0) {
    const std::uint64_t below = options.bytes / unit * unit;
    const std::uint64_t above = std::min(below + unit, max_pool_bytes / unit * unit);
    return fail(ErrorCode::invalid_argument, "size {} is not a multiple of {}; {}", options.bytes,
                base::format_bytes(unit),
                below == above
                    ? fmt::format("the nearest that is: --size {}", below)
                    : fmt::format("the nearest that are: --size {} or --size {}", below, above));
  }
  return {};
}

/// Refuses anything that is not a pool, also with `force`.
Result<void> check_is_pool(const OpenPart& open) {
  if (is_pool(open)) return {};
  return fail(ErrorCode::wrong_format, "{} is not a Penstock pool, so it was left alone{}",
              open.part.path, open.device ? "" : "; to delete it: rm " + open.part.path);
}

}  // namespace

Result<Superblock> plan(const CreateOptions& options, const std::vector<Part>& parts,
                        std::vector<OpenPart>& devices, LayOut lay_out) {
  std::uint64_t unit = huge_page_bytes;
  std::uint64_t smallest = UINT64_MAX;
  for (const Part& part : parts) {
    PENSTOCK_TRY(check_replaceable(part, options));
    if (!is_device(part)) continue;
    auto open = PENSTOCK_TRY(open_part(part, Access::write, options.spec));
    PENSTOCK_TRY(check_device_free(open, options));
    unit = std::max(unit, open.alignment);
    smallest = std::min(smallest, open.bytes);
    devices.push_back(std::move(open));
  }
  const auto count = static_cast<std::uint32_t>(parts.size());
  Superblock s{.magic = magic, .layout_version = layout_version, .header_bytes = page_bytes};
  s.data_offset = count > 1 ? unit : 0;
  CreateOptions sized = options;
  if (sized.bytes == 0) {
    sized.bytes = PENSTOCK_TRY(existing_bytes(parts, options, s.data_offset, unit, lay_out));
  }
  PENSTOCK_TRY(check_size(sized, unit * count));
  s.bytes = sized.bytes;
  s.mode = static_cast<std::uint32_t>(options.mode);
  s.sparse = options.sparse ? 1 : 0;
  s.part_count = count;
  s.part_bytes = s.data_offset + s.bytes / count;
  s.stripe_bytes = stripe_bytes_for(s.bytes / count, count, unit);
  if (devices.size() > 0 && smallest < s.part_bytes) {
    return fail(ErrorCode::no_space,
                "a device of pool {} has {}, needed are {}; give a smaller --size", options.spec,
                base::format_bytes(smallest), base::format_bytes(s.part_bytes));
  }
  return s;
}

Result<std::vector<OpenPart>> reserve_parts(const std::vector<Part>& parts,
                                            std::vector<OpenPart> devices, std::uint64_t part_bytes,
                                            std::uint64_t at_once) {
  std::vector<OpenPart> open;
  for (const Part& part : parts) {
    auto device = std::find_if(devices.begin(), devices.end(), [&](const OpenPart& candidate) {
      return candidate.part.path == part.path;
    });
    if (device != devices.end()) {
      open.push_back(std::move(*device));
      devices.erase(device);
      continue;
    }
    auto reserved = PENSTOCK_TRY(reserve_part(part, part_bytes, at_once));
    open.push_back(std::move(reserved));
  }
  return open;
}

Result<void> name_parts(const std::vector<OpenPart>& parts, const CreateOptions& options) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto named = name_part(parts[i], options);
    if (named) continue;
    for (std::size_t done = 0; done < i; ++done) {
      if (!parts[done].device) ::unlink(parts[done].part.path.c_str());
    }
    return named;
  }
  return {};
}

Result<void> check_are_pools(const std::vector<Part>& parts, const std::string& spec) {
  for (const Part& part : parts) {
    if (file_kind(part) == FileKind::absent) continue;
    auto open = PENSTOCK_TRY(open_part(part, Access::read, spec));
    if (auto ours = check_is_pool(open); !ours) return ours;
  }
  return {};
}

Result<void> remove_part(const Part& part, const std::string& spec) {
  if (file_kind(part) == FileKind::absent) return {};
  auto open = PENSTOCK_TRY(open_part(part, Access::write, spec));
  if (auto ours = check_is_pool(open); !ours) return ours;
  if (open.device) return wipe_superblock(open);
  if (::unlink(part.path.c_str()) == 0) return {};
  return fail(ErrorCode::permission,
              "{} cannot be removed: {}; its owner runs: penstock pool rm {}", part.path,
              std::strerror(errno), base::shell_quote(spec));
}

}  // namespace penstock::device

// Creates, examines and removes pools.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "pool/mapping.hpp"
#include "pool/node_caches.hpp"
#include "pool/occupancy.hpp"
#include "pool/owner.hpp"
#include "pool/random_id.hpp"
#include "pool/superblock.hpp"

namespace penstock::pool {

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
std::uint64_t existing_bytes(const Part& part, const CreateOptions& options) {
  if (file_kind(part) == FileKind::absent) return 0;
  const auto open = open_part(part, Access::read, options.spec);
  if (!open) return 0;
  if (open->device) return open->bytes;
  const auto superblock = read_superblock(*open);
  if (!superblock || !*superblock) return 0;
  return is_whole(**superblock) ? (*superblock)->part_bytes : open->bytes;
}

/// The size of a pool whose parts are all as large as the smallest.
Result<std::uint64_t> existing_bytes(const std::vector<Part>& parts, const CreateOptions& options,
                                     std::uint64_t data_offset, std::uint64_t unit) {
  std::uint64_t smallest = UINT64_MAX;
  for (const Part& part : parts) smallest = std::min(smallest, existing_bytes(part, options));
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
  if (!options.overwrite) {
    return fail(ErrorCode::already_exists, "{} holds a pool; {}", part.part.path,
                how_to_replace(options.spec));
  }
  auto attached = living_occupant(options.spec);
  if (attached && *attached) {
    return fail(ErrorCode::unavailable,
                "{} holds a pool and {}; end them, or run: penstock pool rm {} --force",
                part.part.path, **attached, base::shell_quote(options.spec));
  }
  return {};
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

/// Opens the devices and decides on the geometry; files are made later.
Result<Superblock> plan(const CreateOptions& options, const std::vector<Part>& parts,
                        std::vector<OpenPart>& devices) {
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
    sized.bytes = PENSTOCK_TRY(existing_bytes(parts, options, s.data_offset, unit));
  }
  PENSTOCK_TRY(check_size(sized, unit * count));
  s.bytes = sized.bytes;
  s.mode = static_cast<std::uint32_t>(options.mode);
  s.sparse = options.sparse ? 1 : 0;
  s.part_count = count;
  s.max_processes = options.max_processes != 0 ? options.max_processes : default_processes(s.bytes);
  s.max_nodes = options.max_nodes;
  s.part_bytes = s.data_offset + s.bytes / count;
  s.stripe_bytes = stripe_bytes_for(s.bytes / count, count, unit);
  if (devices.size() > 0 && smallest < s.part_bytes) {
    return fail(ErrorCode::no_space,
                "a device of pool {} has {}, needed are {}; give a smaller --size", options.spec,
                base::format_bytes(smallest), base::format_bytes(s.part_bytes));
  }
  PENSTOCK_TRY(lay_out(s));
  return s;
}

/// Returns devices as opened, and files with reserved space, in the order of `parts`.
Result<std::vector<OpenPart>> reserve(const std::vector<Part>& parts, std::vector<OpenPart> devices,
                                      std::uint64_t part_bytes, std::uint64_t at_once) {
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

/// Zeroes the superblock page and the tables; the arena keeps its contents and is formatted later.
/// write_superblock() does a store fence before the magic.
void zero_metadata(const coherence::Memory& memory, std::byte* base, std::uint64_t bytes) {
  alignas(64) static constexpr std::array<std::byte, page_bytes> zeros{};
  for (std::uint64_t at = 0; at < bytes; at += zeros.size()) {
    memory.publish_bulk(base + at, zeros.data(), zeros.size());
  }
}

/// Gives the parts their names; on failure removes the names given so far.
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

/// Before any process attaches, data goes directly to the pool, also in simulated mode, where nodes
/// get their views later.
Result<coherence::View> creators_view(const Mapping& mapping, const Superblock& superblock,
                                      const std::string& path) {
  const auto mode = static_cast<coherence::Mode>(superblock.mode);
  const coherence::PoolMapping place{
      .base = mapping.base(), .bytes = mapping.bytes(), .path = path};
  return mode == coherence::Mode::simulated ? coherence::cautious_view(place)
                                            : coherence::view(mode, place);
}

Result<void> write_pool(const std::vector<OpenPart>& parts, const Superblock& superblock) {
  for (const OpenPart& part : parts) {
    // Until the end the device is not a pool, so that no process attaches to a half-made one.
    if (!part.device) continue;
    if (auto wiped = wipe_superblock(part); !wiped) return wiped;
  }
  auto mapping = PENSTOCK_TRY(map_pool(parts, superblock, Access::write));
  auto view = PENSTOCK_TRY(creators_view(mapping, superblock, parts.front().part.path));
  zero_metadata(view.memory, view.base, metadata_bytes(superblock));
  for (std::uint32_t i = static_cast<std::uint32_t>(parts.size()); i > 0; --i) {
    Superblock copy = superblock;
    copy.part_index = i - 1;
    if (auto written = write_superblock(parts[i - 1], copy); !written) return written;
  }
  return {};
}

/// Refuses anything that is not a pool, also with `force`.
Result<void> check_is_pool(const OpenPart& open) {
  if (is_pool(open)) return {};
  return fail(ErrorCode::wrong_format, "{} is not a Penstock pool, so it was left alone{}",
              open.part.path, open.device ? "" : "; to delete it: rm " + open.part.path);
}

Result<void> check_format(const std::vector<Part>& parts, const std::string& spec) {
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

tl::unexpected<Error> in_use(const std::string& spec, const std::string& occupant) {
  return fail(ErrorCode::unavailable,
              "pool {} is in use: {}; end them, or run: penstock pool rm {} --force", spec,
              occupant, base::shell_quote(spec));
}

}  // namespace

Result<Info> create(const CreateOptions& options) {
  auto parts = PENSTOCK_TRY(parse_spec(options.spec));
  if (options.mode != coherence::Mode::simulated) {
    PENSTOCK_TRY(coherence::bind(options.mode));
  }
  if (options.overwrite) {
    // a damaged pool, or a file that is not ours, counts as unused
    const auto occupant = living_occupant(options.spec);
    if (occupant && *occupant) return in_use(options.spec, **occupant);
  }
  std::vector<OpenPart> devices;
  auto superblock = PENSTOCK_TRY(plan(options, parts, devices));
  superblock.pool_id = PENSTOCK_TRY(random_id());
  superblock.created_wall_ns = base::wall_ns();

  // the tables, whichever stripes of the parts they occupy
  const std::uint64_t tables =
      metadata_bytes(superblock) +
      (parts.size() > 1 ? superblock.data_offset + superblock.stripe_bytes : 0);
  auto open = PENSTOCK_TRY(reserve(parts, std::move(devices), superblock.part_bytes,
                                   options.sparse ? tables : superblock.part_bytes));
  if (auto written = write_pool(open, superblock); !written) {
    return unexpected(written.error());
  }
  PENSTOCK_TRY(name_parts(open, options));
  if (options.overwrite || options.mode == coherence::Mode::simulated) {
    remove_node_caches(parts.front().path, superblock.pool_id);
  }
  return info_of(superblock, options.spec);
}

Result<Info> inspect(const std::string& spec) {
  auto parts = PENSTOCK_TRY(open_parts(spec, Access::read));
  auto superblock = PENSTOCK_TRY(check_superblocks(parts, spec));
  Info info = info_of(superblock, spec);
  info.owner = owner_of(parts.front());
  return info;
}

Result<void> remove(const std::string& spec, bool force) {
  auto parts = PENSTOCK_TRY(parse_spec(spec));
  const bool any = std::any_of(parts.begin(), parts.end(), [](const Part& part) {
    return file_kind(part) != FileKind::absent;
  });
  if (!any) {
    remove_node_caches(parts.front().path, 0);
    for (const Part& part : parts) {
      if (!part.is_link()) continue;
      return fail(
          ErrorCode::not_found,
          "pool {} is absent: the link {} leads to {}, where nothing is; to delete the link: rm "
          "{}",
          spec, part.named, part.path, base::shell_quote(part.named));
    }
    return fail(ErrorCode::not_found, "pool {} is absent: there is nothing to remove", spec);
  }
  if (!force) {
    const auto occupant = living_occupant(spec);
    if (!occupant) {
      if (auto ours = check_format(parts, spec); !ours) return ours;
      return fail(occupant.error().code,
                  "{} (to remove it anyway: penstock pool rm {} "
                  "--force)",
                  occupant.error().message, base::shell_quote(spec));
    }
    if (*occupant) return in_use(spec, **occupant);
  }
  for (const Part& part : parts) {
    if (auto removed = remove_part(part, spec); !removed) return removed;
  }
  remove_node_caches(parts.front().path, 0);
  return {};
}

}  // namespace penstock::pool

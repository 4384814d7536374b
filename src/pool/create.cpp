// Creates, examines and removes pools.
#include <algorithm>
#include <array>

#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "device/creation.hpp"
#include "device/mapping.hpp"
#include "pool/layout.hpp"
#include "pool/node_caches.hpp"
#include "pool/occupancy.hpp"
#include "pool/random_id.hpp"

namespace penstock::pool {

namespace {

/// Zeroes the superblock page and the tables; the arena keeps its contents and is formatted later.
/// write_superblock() does a store fence before the magic.
void zero_metadata(const coherence::Memory& memory, std::byte* base, std::uint64_t bytes) {
  alignas(64) static constexpr std::array<std::byte, device::page_bytes> zeros{};
  for (std::uint64_t at = 0; at < bytes; at += zeros.size()) {
    memory.publish_bulk(base + at, zeros.data(), zeros.size());
  }
}

/// Before any process attaches, data goes directly to the pool, also in simulated mode, where nodes
/// get their views later.
Result<coherence::View> creators_view(const device::Mapping& mapping,
                                      const device::Superblock& superblock,
                                      const std::string& path) {
  const auto mode = static_cast<coherence::Mode>(superblock.mode);
  const coherence::PoolMapping place{
      .base = mapping.base(), .bytes = mapping.bytes(), .path = path};
  return mode == coherence::Mode::simulated ? coherence::cautious_view(place)
                                            : coherence::view(mode, place);
}

Result<void> write_pool(const std::vector<device::OpenPart>& parts,
                        const device::Superblock& superblock) {
  for (const device::OpenPart& part : parts) {
    // Until the end the device is not a pool, so that no process attaches to a half-made one.
    if (!part.device) continue;
    if (auto wiped = device::wipe_superblock(part); !wiped) return wiped;
  }
  auto mapping = PENSTOCK_TRY(device::map_pool(parts, superblock, device::Access::write));
  auto view = PENSTOCK_TRY(creators_view(mapping, superblock, parts.front().part.path));
  zero_metadata(view.memory, view.base, metadata_bytes(superblock));
  for (std::uint32_t i = static_cast<std::uint32_t>(parts.size()); i > 0; --i) {
    device::Superblock copy = superblock;
    copy.part_index = i - 1;
    if (auto written = device::write_superblock(parts[i - 1], copy); !written) return written;
  }
  return {};
}

tl::unexpected<Error> in_use(const std::string& spec, const std::string& occupant) {
  return fail(ErrorCode::unavailable,
              "pool {} is in use: {}; end them, or run: penstock pool rm {} --force", spec,
              occupant, base::shell_quote(spec));
}

/// A damaged pool, or a file that is not ours, counts as unused.
Result<void> check_unused(const std::string& spec) {
  const auto occupant = living_occupant(spec);
  if (occupant && *occupant) return in_use(spec, **occupant);
  return {};
}

}  // namespace

Result<Info> create(const CreateOptions& options) {
  auto parts = PENSTOCK_TRY(device::parse_spec(options.spec));
  if (options.mode != coherence::Mode::simulated) {
    PENSTOCK_TRY(coherence::bind(options.mode));
  }
  if (options.overwrite) PENSTOCK_TRY(check_unused(options.spec));
  std::vector<device::OpenPart> devices;
  auto superblock = PENSTOCK_TRY(device::plan(options, parts, devices, lay_out));
  if (options.overwrite && !devices.empty()) PENSTOCK_TRY(check_unused(options.spec));
  superblock.max_processes =
      options.max_processes != 0 ? options.max_processes : default_processes(superblock.bytes);
  superblock.max_nodes = options.max_nodes;
  PENSTOCK_TRY(lay_out(superblock));
  superblock.pool_id = PENSTOCK_TRY(random_id());
  superblock.created_wall_ns = base::wall_ns();

  // the tables, whichever stripes of the parts they occupy
  const std::uint64_t tables =
      metadata_bytes(superblock) +
      (parts.size() > 1 ? superblock.data_offset + superblock.stripe_bytes : 0);
  auto open = PENSTOCK_TRY(device::reserve_parts(parts, std::move(devices), superblock.part_bytes,
                                                 options.sparse ? tables : superblock.part_bytes));
  if (auto written = write_pool(open, superblock); !written) {
    return unexpected(written.error());
  }
  PENSTOCK_TRY(device::name_parts(open, options));
  if (options.overwrite || options.mode == coherence::Mode::simulated) {
    remove_node_caches(parts.front().path, superblock.pool_id);
  }
  return info_of(superblock, options.spec);
}

Result<Info> inspect(const std::string& spec) {
  auto parts = PENSTOCK_TRY(device::open_parts(spec, device::Access::read));
  auto superblock = PENSTOCK_TRY(check_superblocks(parts, spec));
  Info info = info_of(superblock, spec);
  info.owner = device::owner_of(parts.front());
  return info;
}

Result<void> remove(const std::string& spec, bool force) {
  auto parts = PENSTOCK_TRY(device::parse_spec(spec));
  const bool any = std::any_of(parts.begin(), parts.end(), [](const device::Part& part) {
    return device::file_kind(part) != device::FileKind::absent;
  });
  if (!any) {
    remove_node_caches(parts.front().path, 0);
    for (const device::Part& part : parts) {
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
      if (auto ours = device::check_are_pools(parts, spec); !ours) return ours;
      return fail(occupant.error().code,
                  "{} (to remove it anyway: penstock pool rm {} "
                  "--force)",
                  occupant.error().message, base::shell_quote(spec));
    }
    if (*occupant) return in_use(spec, **occupant);
  }
  for (const device::Part& part : parts) {
    if (auto removed = device::remove_part(part, spec); !removed) return removed;
  }
  remove_node_caches(parts.front().path, 0);
  return {};
}

std::string larger_pool_text(const Info& info, std::uint64_t wanted) {
  const std::uint64_t mib = std::max<std::uint64_t>((info.bytes + wanted) >> 19, 1);
  if (info.spec.starts_with(temporary_pool_prefix))
    return fmt::format("run the job with --size {0}M (without penstock run: PENSTOCK_SIZE={0}M)",
                       mib);
  return fmt::format("make a larger pool: penstock pool create {} --size {}M --overwrite",
                     base::shell_quote(info.spec), mib);
}

std::string more_space_text(const Info& info, std::uint64_t wanted) {
  const std::string larger = larger_pool_text(info, wanted);
  if (info.spec.starts_with(temporary_pool_prefix)) return larger;
  return fmt::format(
      "see what uses it: penstock pool ls {} --all; free space of dead processes: penstock pool gc "
      "{} "
      "--yes, or "
      "{}",
      base::shell_quote(info.spec), base::shell_quote(info.spec), larger);
}

Info info_of(const device::Superblock& s, const std::string& spec) {
  return Info{.spec = spec,
              .id = s.pool_id,
              .bytes = s.bytes,
              .mode = static_cast<coherence::Mode>(s.mode),
              .max_processes = s.max_processes,
              .max_nodes = s.max_nodes,
              .created_wall_ns = s.created_wall_ns,
              .arena_offset = s.arena_offset,
              .arena_bytes = s.arena_bytes,
              .striping = device::striping_of(s)};
}

}  // namespace penstock::pool

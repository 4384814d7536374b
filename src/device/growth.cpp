#include "device/growth.hpp"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::device {

namespace {

constexpr std::uint64_t stat_block_bytes = 512;  // unit of st_blocks on every file system

std::uint64_t taken_by(int fd) {
  struct stat status;
  return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * stat_block_bytes
                                   : 0;
}

bool has_holes(const OpenPart& part) {
  struct stat status;
  if (part.device || ::fstat(part.fd.get(), &status) != 0) return false;
  return static_cast<std::uint64_t>(status.st_blocks) * stat_block_bytes <
         static_cast<std::uint64_t>(status.st_size);
}

/// The allocation unit of the file system.
std::uint64_t block_bytes_of(int fd) {
  struct statfs system;
  return ::fstatfs(fd, &system) == 0 ? static_cast<std::uint64_t>(system.f_bsize) : page_bytes;
}

bool lies_in_huge_pages(int fd) {
  struct statfs system;
  return ::fstatfs(fd, &system) == 0 &&
         static_cast<std::uint32_t>(system.f_type) == HUGETLBFS_MAGIC;
}

/// The superuser may also use the blocks that file systems reserve for it.
std::uint64_t free_bytes_of(int fd) {
  struct statvfs room;
  if (::fstatvfs(fd, &room) != 0) return UINT64_MAX;
  return static_cast<std::uint64_t>(::geteuid() == 0 ? room.f_bfree : room.f_bavail) *
         room.f_frsize;
}

FileRange whole_blocks_around(const FileRange& range) {
  const std::uint64_t unit = block_bytes_of(range.fd);
  const std::uint64_t begin = range.offset / unit * unit;
  return {range.fd, begin, base::align_up(range.offset + range.bytes, unit) - begin};
}

/// The blocks of `range` that the file lacks; nullopt if the file system cannot say.
std::optional<std::vector<FileRange>> missing_in(const FileRange& range) {
  constexpr std::size_t batch = 64;
  alignas(fiemap) std::byte buffer[sizeof(fiemap) + batch * sizeof(fiemap_extent)];
  auto* const map = reinterpret_cast<fiemap*>(buffer);
  const std::uint64_t end = range.offset + range.bytes;
  std::vector<FileRange> missing;
  const auto lacks = [&](std::uint64_t from, std::uint64_t to) {
    if (from < to) missing.push_back({range.fd, from, to - from});
  };
  std::uint64_t at = range.offset;
  while (at < end) {
    std::memset(buffer, 0, sizeof buffer);
    map->fm_start = at;
    map->fm_length = end - at;
    map->fm_extent_count = batch;
    if (::ioctl(range.fd, FS_IOC_FIEMAP, map) != 0) return std::nullopt;
    for (std::uint32_t i = 0; i < map->fm_mapped_extents; ++i) {
      const fiemap_extent& extent = map->fm_extents[i];
      lacks(at, std::min<std::uint64_t>(extent.fe_logical, end));
      at = std::max<std::uint64_t>(at, extent.fe_logical + extent.fe_length);
    }
    if (map->fm_mapped_extents < batch) break;
  }
  lacks(at, end);
  return missing;
}

std::vector<FileRange> block_by_block(const FileRange& range) {
  const std::uint64_t unit = block_bytes_of(range.fd);
  std::vector<FileRange> blocks;
  for (std::uint64_t at = range.offset; at < range.offset + range.bytes; at += unit)
    blocks.push_back({range.fd, at, unit});
  return blocks;
}

int take(const FileRange& piece) {
  int done;
  do {
    done = ::fallocate(piece.fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(piece.offset),
                       static_cast<off_t>(piece.bytes));
  } while (done != 0 && errno == EINTR);
  return done == 0 ? 0 : errno;
}

void punch(const FileRange& piece) {
  (void)::fallocate(piece.fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
                    static_cast<off_t>(piece.offset), static_cast<off_t>(piece.bytes));
}

bool cannot_reserve(int error) {
  return error == EOPNOTSUPP || error == ENOSYS;
}

/// The holes of `range`; includes blocks that are reserved but not yet written.
std::vector<FileRange> holes_in(const FileRange& range) {
  const auto end = static_cast<off_t>(range.offset + range.bytes);
  std::vector<FileRange> holes;
  for (auto at = static_cast<off_t>(range.offset); at < end;) {
    const off_t hole = ::lseek(range.fd, at, SEEK_HOLE);
    if (hole < 0 || hole >= end) break;
    const off_t data = ::lseek(range.fd, hole, SEEK_DATA);
    at = data < 0 ? end : std::min(data, end);
    holes.push_back(
        {range.fd, static_cast<std::uint64_t>(hole), static_cast<std::uint64_t>(at - hole)});
  }
  return holes;
}

/// Splits off the blocks at both ends, which may be shared with a neighbour.
std::vector<FileRange> ends_apart(const FileRange& range) {
  const std::uint64_t unit = block_bytes_of(range.fd);
  if (range.bytes <= 2 * unit) return block_by_block(range);
  return {{range.fd, range.offset, unit},
          {range.fd, range.offset + unit, range.bytes - 2 * unit},
          {range.fd, range.offset + range.bytes - unit, unit}};
}

/// Allocates the blocks of `range` that the file lacks, and adds them to `taken`. They held no data
/// before; the caller returns them if the request fails.
int take_missing(const FileRange& range, std::vector<FileRange>& taken) {
  const FileRange whole = whole_blocks_around(range);
  const auto missing = missing_in(whole);
  const bool huge = !missing && lies_in_huge_pages(range.fd);
  const auto pieces = missing ? *missing : huge ? block_by_block(whole) : ends_apart(whole);
  std::uint64_t needed = 0;
  for (const FileRange& piece : pieces) needed += missing ? piece.bytes : 0;
  // checked first, so that other programs do not find the file system full during a failing request
  if (needed > free_bytes_of(range.fd)) return ENOSPC;
  for (const FileRange& piece : pieces) {
    const std::uint64_t before = taken_by(range.fd);
    const int error = take(piece);
    // A file system may keep the part of a piece that it had room for; tmpfs does not. Tmpfs and
    // huge page files say only how many blocks they have, not which.
    if (missing || taken_by(range.fd) != before) {
      const auto given = missing || huge ? std::vector{piece} : holes_in(piece);
      taken.insert(taken.end(), given.begin(), given.end());
    }
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace

bool can_reserve(int fd) {
  return !cannot_reserve(take({fd, 0, 1}));
}

Result<void> reserve(const std::vector<FileRange>& ranges) {
  std::vector<FileRange> taken;
  for (const FileRange& range : ranges) {
    const int error = take_missing(range, taken);
    if (error == 0 || cannot_reserve(error)) continue;
    for (const FileRange& piece : taken) punch(piece);
    return fail(ErrorCode::no_space, "{} more are not available: {} ({} free)",
                base::format_bytes(range.bytes), std::strerror(error),
                base::format_bytes(free_bytes_of(range.fd)));
  }
  return {};
}

Growth Growth::of(std::vector<OpenPart>& parts, const Superblock& superblock,
                  const std::string& spec) {
  Growth growth;
  growth.spec_ = spec;
  growth.striping_ = striping_of(superblock);
  const bool sparse = superblock.sparse != 0;
  growth.shrinks_ =
      sparse && superblock.mode != static_cast<std::uint32_t>(coherence::Mode::simulated);
  growth.data_offset_ = superblock.data_offset;
  if (!sparse && std::none_of(parts.begin(), parts.end(), has_holes)) return growth;
  for (OpenPart& part : parts) growth.files_.emplace_back(part.device ? -1 : part.fd.release());
  return growth;
}

/// Consecutive stripes of a part are contiguous in its file.
std::vector<FileRange> Growth::ranges(std::uint64_t offset, std::uint64_t bytes) const {
  std::vector<FileRange> found(files_.size());
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t at = offset; at < end;) {
    const Stripe stripe = striping_.stripe_of(at);
    const std::uint64_t until = std::min(end, stripe.end);
    FileRange& range = found[stripe.part];
    if (range.bytes == 0) {
      const std::uint64_t row = stripe.begin / (striping_.stripe_bytes * files_.size());
      range.fd = files_[stripe.part].get();
      range.offset = data_offset_ + row * striping_.stripe_bytes + (at - stripe.begin);
    }
    range.bytes += until - at;
    at = until;
  }
  std::erase_if(found, [](const FileRange& range) { return range.bytes == 0 || range.fd < 0; });
  return found;
}

Result<void> Growth::reserve(std::uint64_t offset, std::uint64_t bytes) const {
  const auto reserved = device::reserve(ranges(offset, bytes));
  if (reserved) return {};
  return fail(ErrorCode::no_space,
              "pool {} grows as objects are made in it, and {}; free space there (what objects "
              "have left: penstock pool gc {} --yes), or for /dev/shm: mount -o "
              "remount,size=... /dev/shm (in a container: --shm-size)",
              spec_, reserved.error().message, base::shell_quote(spec_));
}

std::uint64_t Growth::give_back(std::uint64_t offset, std::uint64_t bytes) const {
  if (!shrinks_) return 0;
  std::uint64_t given = 0;
  for (const FileRange& range : ranges(offset, bytes)) {
    const std::uint64_t unit = block_bytes_of(range.fd);
    const std::uint64_t begin = base::align_up(range.offset, unit);
    const std::uint64_t end = (range.offset + range.bytes) / unit * unit;
    if (begin >= end) continue;
    const std::uint64_t before = taken_by(range.fd);
    punch({range.fd, begin, end - begin});
    given += before - std::min(before, taken_by(range.fd));
  }
  return given;
}

}  // namespace penstock::device

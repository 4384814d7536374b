#include "device/pool_file.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/checksum.hpp"

namespace penstock::device {

namespace {

/// The kind of file, in the upper bits of the word. Different numbers prove different files only if
/// both have the same kind and it is not `doubtful`: in an overlay a file has other numbers in the
/// lower layer.
enum class Kind : std::uint32_t { doubtful = 0, plain = 1, overlay = 2 };
constexpr int kind_shift = 30;

Kind kind_of(std::uint32_t word) {
  return static_cast<Kind>(word >> kind_shift);
}

/// On network and user-space file systems one file may have several numbers.
Kind kind_of_file(int fd) {
  constexpr std::int64_t zfs = 0x2fc12fc1;
  constexpr std::array<std::int64_t, 8> plain{
      EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, TMPFS_MAGIC, BTRFS_SUPER_MAGIC,
      F2FS_SUPER_MAGIC, HUGETLBFS_MAGIC, RAMFS_MAGIC, zfs};
  struct statfs system;
  if (::fstatfs(fd, &system) != 0) return Kind::doubtful;
  const auto magic = static_cast<std::int64_t>(static_cast<std::uint32_t>(system.f_type));
  if (magic == OVERLAYFS_SUPER_MAGIC) return Kind::overlay;
  return std::find(plain.begin(), plain.end(), magic) != plain.end() ? Kind::plain : Kind::doubtful;
}

}  // namespace

std::uint32_t pool_file_of(const std::vector<OpenPart>& parts) {
  std::uint64_t hash = 0;
  std::optional<Kind> kind;
  for (const OpenPart& part : parts) {
    struct stat status {};
    const bool known = ::fstat(part.fd.get(), &status) == 0;
    const bool device = S_ISCHR(status.st_mode);  // several devices may share one memory
    const std::uint64_t numbers[] = {device, device ? status.st_rdev : status.st_dev,
                                     device ? 0 : status.st_ino};
    hash = base::xxh64(numbers, sizeof numbers, hash);
    const Kind here = known && !device ? kind_of_file(part.fd.get()) : Kind::doubtful;
    kind = kind.value_or(here) == here ? here : Kind::doubtful;
  }
  const auto word = static_cast<std::uint32_t>(hash) & ((1u << kind_shift) - 1);
  return word | static_cast<std::uint32_t>(kind.value_or(Kind::doubtful)) << kind_shift;
}

SameFile same_file(std::uint32_t one, std::uint32_t other) {
  if (one == other) return SameFile::yes;
  const bool proves = kind_of(one) != Kind::doubtful && kind_of(one) == kind_of(other);
  return proves ? SameFile::no : SameFile::unknown;
}

}  // namespace penstock::device

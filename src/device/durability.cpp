#include "device/durability.hpp"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>

namespace penstock::device {

namespace {

/// True for a file system that maps its device directly. Others refuse the flag.
bool maps_device(const OpenPart& part) {
  void* at =
      ::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, part.fd.get(), 0);
  if (at == MAP_FAILED) return false;
  ::munmap(at, page_bytes);
  return true;
}

Durability durability_of(const OpenPart& part) {
  if (part.device) return Durability::device;
  struct statfs system;
  if (::fstatfs(part.fd.get(), &system) != 0) return Durability::none;
  const auto kind = static_cast<unsigned long>(system.f_type);
  if (kind == TMPFS_MAGIC || kind == RAMFS_MAGIC || kind == HUGETLBFS_MAGIC)
    return Durability::none;
  return maps_device(part) ? Durability::device : Durability::file;
}

}  // namespace

Durability durability_of(const std::vector<OpenPart>& parts, coherence::Mode mode) {
  if (mode == coherence::Mode::simulated)
    return Durability::device;  // its file stands for a device
  Durability least = Durability::device;
  for (const OpenPart& part : parts) least = std::min(least, durability_of(part));
  return least;
}

const char* durability_name(Durability durability) {
  switch (durability) {
    case Durability::none:
      return "none";
    case Durability::file:
      return "file";
    case Durability::device:
      return "device";
  }
  return "unknown";
}

}  // namespace penstock::device

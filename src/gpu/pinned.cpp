#include "gpu/pinned.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/numa.hpp"

namespace penstock::gpu {

namespace {

/// Ranks that share this process register the same memory of the pool, for all its GPUs.
struct Registered {
  struct Piece {
    std::uint64_t bytes;
    int users;
    /// While the driver registers or unregisters it. It may wait for streams of other threads.
    bool in_driver;
    std::shared_ptr<const Device> device;  ///< whose context, which ends the registration, is held
  };
  /// The first piece that overlaps the bytes, or the end.
  auto overlapping(std::byte* begin, std::uint64_t bytes) {
    auto found = pieces.upper_bound(begin);
    if (found != pieces.begin()) {
      const auto before = std::prev(found);
      if (before->first + before->second.bytes > begin) return before;
    }
    return found != pieces.end() && found->first < begin + bytes ? found : pieces.end();
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::byte*, Piece> pieces;  ///< by their start; they do not overlap
};
Registered& registered() {
  static auto& all = *new Registered;  // threads may end after the program's statics
  return all;
}

/// Memory that the kernel has no page structures for, like that of a device, is taken only by its
/// own name; all other memory only without it.
Result<void> register_with(const cuda::Driver& driver, std::byte* begin, std::uint64_t bytes) {
  constexpr unsigned flags = cuda::host_register_portable | cuda::host_register_device_map;
  const cuda::Status plain = driver.host_register(begin, bytes, flags);
  const auto done = driver.check(
      plain, fmt::format("{} of host memory for the GPU", base::format_bytes(bytes)).c_str());
  if (done || plain == cuda::already_registered || plain == cuda::out_of_memory) return done;
  if (driver.host_register(begin, bytes, flags | cuda::host_register_io_memory) != cuda::success)
    return done;
  base::log(base::Level::info, "the GPU's driver takes {} of host memory as I/O memory only",
            base::format_bytes(bytes));
  return {};
}

}  // namespace

Result<void> Pinned::add(std::byte* begin, std::uint64_t bytes) {
  const cuda::Driver& driver = device_->driver();
  const Device::Scope scope(*device_);
  Registered& all = registered();
  std::unique_lock<std::mutex> lock(all.mutex);
  auto found = all.overlapping(begin, bytes);
  while (found != all.pieces.end() && found->second.in_driver) {
    all.changed.wait(lock);
    found = all.overlapping(begin, bytes);
  }
  if (found != all.pieces.end() &&
      (found->first > begin || found->first + found->second.bytes < begin + bytes))
    return fail(ErrorCode::unavailable,
                "{} of host memory for the GPU: a part of it is still registered with the GPU, by "
                "an earlier user: destroy communicators of which ranks have ended",
                base::format_bytes(bytes));
  if (found == all.pieces.end()) {
    found = all.pieces.emplace(begin, Registered::Piece{bytes, 0, true, device_}).first;
    lock.unlock();
    const auto done = register_with(driver, begin, bytes);
    lock.lock();
    found->second.in_driver = false;
    all.changed.notify_all();
    if (!done) {
      all.pieces.erase(found);
      return done;
    }
  }
  ++found->second.users;
  const auto offset = static_cast<std::uint64_t>(begin - found->first);
  pieces_.push_back({.begin = found->first});
  PENSTOCK_TRY(driver.check(driver.host_device_pointer(&pieces_.back().pointer, found->first, 0),
                            "the GPU's address of host memory"));
  pieces_.back().pointer += offset;
  return {};
}

Pinned::~Pinned() {
  Registered& all = registered();
  for (const Piece& piece : pieces_) {
    std::unique_lock<std::mutex> lock(all.mutex);
    const auto entry = all.pieces.find(piece.begin);
    if (--entry->second.users != 0) continue;
    entry->second.in_driver = true;
    lock.unlock();
    {
      const Device::Scope by_its_context(*entry->second.device);
      (void)device_->driver().host_unregister(piece.begin);
    }
    lock.lock();
    all.pieces.erase(entry);
    all.changed.notify_all();
  }
}

Pinned& Pinned::operator=(Pinned&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(begin_, other.begin_);
  std::swap(end_, other.end_);
  std::swap(piece_bytes_, other.piece_bytes_);
  std::swap(pieces_, other.pieces_);
  return *this;
}

Result<Pinned> Pinned::make(std::shared_ptr<const Device> device, std::byte* begin,
                            std::uint64_t bytes, std::uint64_t piece_bytes) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  Pinned made;
  made.device_ = std::move(device);
  made.piece_bytes_ = piece_bytes;
  made.begin_ = begin - reinterpret_cast<std::uintptr_t>(begin) % page;
  const auto skipped = static_cast<std::uint64_t>(begin - made.begin_);
  made.end_ = made.begin_ + base::align_up(skipped + bytes, page);
  for (std::byte* at = made.begin_; at < made.end_; at += piece_bytes) {
    const auto left = static_cast<std::uint64_t>(made.end_ - at);
    PENSTOCK_TRY(made.add(at, std::min(left, piece_bytes)));
  }
  return made;
}

cuda::DevicePointer Pinned::at(const std::byte* address) const {
  const auto offset = static_cast<std::uint64_t>(address - begin_);
  return pieces_[offset / piece_bytes_].pointer + offset % piece_bytes_;
}

Result<std::unique_ptr<PinnedWords>> PinnedWords::make(std::shared_ptr<const Device> device,
                                                       std::size_t stride) {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::unique_ptr<PinnedWords> words(new PinnedWords(stride));
  void* const page =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return fail(ErrorCode::no_space, "cannot map a page for a GPU's words: {}",
                std::strerror(errno));
  words->page_ = static_cast<std::byte*>(page);
  (void)base::keep_on_node(page, bytes, device->numa_node());
  words->pinned_ = PENSTOCK_TRY(Pinned::make(std::move(device), words->page_, bytes));
  return words;
}

PinnedWords::~PinnedWords() {
  pinned_.reset();
  if (page_ != nullptr) munmap(page_, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace penstock::gpu

#include "gpu/pinned.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/numa.hpp"

namespace penstock::gpu {

namespace {

/// Ranks that share this process register the same memory of the pool.
struct Registered {
  std::mutex mutex;
  std::map<std::byte*, int> users;  ///< by the start of a piece
};
Registered& registered() {
  static auto& all = *new Registered;  // threads may end after the program's statics
  return all;
}

}  // namespace

Result<void> Pinned::add(std::byte* begin, std::uint64_t bytes) {
  const cuda::Driver& driver = device_->driver();
  const Device::Scope scope(*device_);
  const std::lock_guard<std::mutex> guard(registered().mutex);
  int& users = registered().users[begin];
  if (users == 0)
    PENSTOCK_TRY(driver.check(
        driver.host_register(begin, bytes,
                             cuda::host_register_portable | cuda::host_register_device_map),
        fmt::format("{} of host memory for the GPU", base::format_bytes(bytes)).c_str()));
  ++users;
  pieces_.push_back({.begin = begin});
  return driver.check(driver.host_device_pointer(&pieces_.back().pointer, begin, 0),
                      "the GPU's address of host memory");
}

Pinned::~Pinned() {
  if (pieces_.empty()) return;
  const Device::Scope scope(*device_);
  const std::lock_guard<std::mutex> guard(registered().mutex);
  for (const Piece& piece : pieces_) {
    const auto entry = registered().users.find(piece.begin);
    if (--entry->second != 0) continue;
    registered().users.erase(entry);
    (void)device_->driver().host_unregister(piece.begin);
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

Result<std::unique_ptr<PinnedWords>> PinnedWords::make(std::shared_ptr<const Device> device) {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::unique_ptr<PinnedWords> words(new PinnedWords);
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

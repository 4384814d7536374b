#include "gpu/pinned.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::gpu {

/// What one call of the driver has registered.
struct Pinned::Piece {
  std::shared_ptr<const Device> device;
  std::byte* begin = nullptr;
  std::uint64_t bytes = 0;
  cuda::DevicePointer pointer = 0;

  static Result<std::shared_ptr<Piece>> make(const std::shared_ptr<const Device>& device,
                                             std::byte* begin, std::uint64_t bytes);
  ~Piece();
};

namespace {

/// Ranks that share this process name the same memory of the pool.
struct Registered {
  std::mutex mutex;
  std::map<std::byte*, std::weak_ptr<void>> pieces;
};
Registered& registered() {
  static Registered all;
  return all;
}

}  // namespace

Result<std::shared_ptr<Pinned::Piece>> Pinned::Piece::make(
    const std::shared_ptr<const Device>& device, std::byte* begin, std::uint64_t bytes) {
  const std::lock_guard<std::mutex> guard(registered().mutex);
  auto& entry = registered().pieces[begin];
  if (const auto there = std::static_pointer_cast<Piece>(entry.lock());
      there != nullptr && there->bytes == bytes)
    return there;
  auto piece = std::make_shared<Piece>();
  const cuda::Driver& driver = device->driver();
  const Device::Scope scope(*device);
  PENSTOCK_TRY(driver.check(
      driver.host_register(begin, bytes,
                           cuda::host_register_portable | cuda::host_register_device_map),
      fmt::format("{} of host memory for the GPU", base::format_bytes(bytes)).c_str()));
  piece->device = device;
  piece->begin = begin;
  piece->bytes = bytes;
  PENSTOCK_TRY(driver.check(driver.host_device_pointer(&piece->pointer, begin, 0),
                            "the GPU's address of host memory"));
  entry = piece;
  return piece;
}

Pinned::Piece::~Piece() {
  if (device == nullptr) return;
  const Device::Scope scope(*device);
  (void)device->driver().host_unregister(begin);
}

Result<Pinned> Pinned::make(std::shared_ptr<const Device> device, std::byte* begin,
                            std::uint64_t bytes, std::uint64_t piece_bytes) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  Pinned made;
  made.piece_bytes_ = piece_bytes;
  made.begin_ = begin - reinterpret_cast<std::uintptr_t>(begin) % page;
  const auto skipped = static_cast<std::uint64_t>(begin - made.begin_);
  made.end_ = made.begin_ + base::align_up(skipped + bytes, page);
  for (std::byte* at = made.begin_; at < made.end_; at += piece_bytes) {
    const auto left = static_cast<std::uint64_t>(made.end_ - at);
    made.pieces_.push_back(PENSTOCK_TRY(Piece::make(device, at, std::min(left, piece_bytes))));
  }
  return made;
}

cuda::DevicePointer Pinned::at(const std::byte* address) const {
  const auto offset = static_cast<std::uint64_t>(address - begin_);
  return pieces_[offset / piece_bytes_]->pointer + offset % piece_bytes_;
}

}  // namespace penstock::gpu

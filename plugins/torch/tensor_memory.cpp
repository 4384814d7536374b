#include "tensor_memory.hpp"

#include <unistd.h>

#include <string>

#include "rendezvous.hpp"

namespace penstock::torch {

namespace {

constexpr std::uint64_t least_bytes = 64 << 10;

/// Rounds to one of eight sizes between each power of two and the next.
std::uint64_t rounded(std::uint64_t bytes) {
  std::uint64_t step = least_bytes;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

TensorMemory::TensorMemory(penstock_pool_t* pool) : pool_(pool) {
  constexpr std::uint64_t part = 16;  // share of the pool that each process may keep unused
  penstock_pool_info_t info{};
  penstock_pool_info(pool_, &info);
  max_unused_bytes_ = info.bytes / part;
}

TensorMemory::~TensorMemory() {
  destroy_unused();
}

void TensorMemory::give_up_unused() {
  const std::lock_guard<std::mutex> guard(mutex_);
  destroy_unused();
}

void TensorMemory::destroy_unused() {
  for (const Block& block : unused_) penstock_arena_destroy(block.second);
  unused_.clear();
  unused_bytes_ = 0;
}

penstock_object_t* TensorMemory::create(std::uint64_t bytes) {
  penstock_object_options_t options{};
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  options.alignment = 4096;
  options.skip_zeroing = 1;
  penstock_pool_info_t info{};
  penstock_pool_info(pool_, &info);
  const std::string name =
      "penstock.torch." + std::to_string(info.token) + "." + std::to_string(++made_);
  penstock_object_t* made = nullptr;
  const auto status = penstock_arena_create(pool_, name.c_str(), bytes, &options, &made);
  if (status != PENSTOCK_OK) return nullptr;
  // Another node may have stored there before, so this node's copies may be stale.
  penstock_object_info_t of_it{};
  penstock_object_info(made, &of_it);
  penstock_observe(pool_, of_it.data, of_it.bytes);
  return made;
}

penstock_object_t* TensorMemory::take(std::uint64_t bytes) {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto found = unused_.lower_bound({bytes, nullptr});
  if (found != unused_.end() && found->first == bytes) {
    penstock_object_t* const block = found->second;
    unused_.erase(found);
    unused_bytes_ -= bytes;
    return block;
  }
  if (penstock_object_t* const made = create(bytes)) return made;
  destroy_unused();
  return create(bytes);
}

void TensorMemory::give_back(std::uint64_t bytes, penstock_object_t* block) {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (unused_bytes_ + bytes > max_unused_bytes_) {
    penstock_arena_destroy(block);  // other users need the space too
    return;
  }
  unused_bytes_ += bytes;
  unused_.insert({bytes, block});
}

at::Tensor TensorMemory::allocate(const std::shared_ptr<Attached>& attached, std::int64_t elements,
                                  const at::TensorOptions& options) {
  const std::size_t each = options.dtype().itemsize();
  constexpr std::uint64_t most = 1ull << 48;  // larger than any pool
  if (elements <= 0 || static_cast<std::uint64_t>(elements) > most / each) return {};
  const std::uint64_t bytes = rounded(static_cast<std::uint64_t>(elements) * each);
  TensorMemory& memory = attached->tensors();
  penstock_object_t* const block = memory.take(bytes);
  if (block == nullptr) return {};
  penstock_object_info_t info{};
  penstock_object_info(block, &info);
  // In a forked child the memory still belongs to the parent.
  const auto give_back = [attached, bytes, block, owner = ::getpid()](void*) {
    if (owner == ::getpid()) attached->tensors().give_back(bytes, block);
  };
  return at::from_blob(info.data, {elements}, give_back, options);
}

}  // namespace penstock::torch

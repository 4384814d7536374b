// Completion queue: a ring that grows, so that no completion is lost. Errors and successes keep
// their common order.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/wait.hpp"
#include "domain.hpp"

namespace penstock::ofi {

struct Ep;

/// Starts with the fields of fi_cq_tagged_entry; the other formats are prefixes of that.
struct Completion {
  void* context = nullptr;
  std::uint64_t flags = 0;
  std::size_t bytes = 0;
  void* buffer = nullptr;
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  fi_addr_t source = FI_ADDR_NOTAVAIL;
};
static_assert(offsetof(Completion, tag) == offsetof(fi_cq_tagged_entry, tag));
static_assert(offsetof(Completion, bytes) == offsetof(fi_cq_tagged_entry, len));
static_assert(offsetof(Completion, data) == offsetof(fi_cq_tagged_entry, data));

struct CompletionError {
  Completion what;
  std::size_t overflow = 0;
  int error = 0;   ///< FI_E..., positive
  int detail = 0;  ///< the number from remember_text(); 0: no text
};

struct Cq : fid_cq {
  ~Cq();
  Domain* domain = nullptr;
  std::atomic<int> users{0};
  std::atomic<std::uint64_t> signals{0}, signals_handled{0};
  fi_wait_obj wait_object = FI_WAIT_NONE;
  std::size_t entry_bytes = 0;
  bool by_threshold = false;
  std::vector<Ep*> endpoints;  ///< endpoints that complete here; reading polls them
  base::Backoff backoff;

  void push(const Completion& completion) {
    if (tail_ - head_ > mask_ || ring_ == nullptr) {
      if (!grow()) [[unlikely]]
        return;
    }
    ring_[tail_++ & mask_] = completion;
  }
  void push_error(const CompletionError& error);
  std::size_t pending() const { return tail_ - head_; }

  ssize_t read(void* buffer, std::size_t count, fi_addr_t* sources);
  ssize_t read_error(fi_cq_err_entry* entry);
  void progress();
  /// To be called after an empty poll. True if the caller should yield the core after it releases
  /// the domain's guard.
  bool tired();

 private:
  static constexpr std::uint64_t error_mark = ~std::uint64_t{0};
  bool grow();
  Completion* ring_ = nullptr;
  std::uint64_t head_ = 0, tail_ = 0, mask_ = 0;
  bool lost_ = false;
  std::uint32_t empty_polls_ = 0;
  std::string error_text_;  ///< text of the last error read
};

}  // namespace penstock::ofi

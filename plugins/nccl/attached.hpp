// This process's attachments to pools, shared by its communicators and its pool allocations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nccl/abi.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

class Attached {
 public:
  /// Attaches to the pool `spec`, or returns the existing attachment. `key` names the job in
  /// `penstock ps`; PENSTOCK_NODES deals its `ranks` to emulated nodes (0: unknown). Errors: those
  /// of penstock_pool_attach. Thread-safe.
  static Result get(const std::string& spec, std::uint64_t key, int rank, int ranks,
                    std::shared_ptr<Attached>& attached);
  /// Returns an attachment to the pool of PENSTOCK_POOL or, without the variable, to the pool of an
  /// existing communicator. Errors: invalid_usage if there is neither; those of get().
  static Result of_process(std::shared_ptr<Attached>& attached);
  /// Keeps the attachment until the process ends, and with it the objects that this process leaves
  /// in the pool for ranks that arrive later.
  static void keep(const penstock_pool_t* pool);
  ~Attached();
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

  penstock_pool_t* pool() const { return pool_; }
  const std::string& spec() const { return spec_; }

 private:
  Attached(penstock_pool_t* pool, std::string spec) : pool_(pool), spec_(std::move(spec)) {}
  penstock_pool_t* pool_;
  std::string spec_;
};

}  // namespace penstock::nccl

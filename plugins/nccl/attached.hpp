// This process's attachments to pools, shared by its communicators and its memory in them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nccl/abi.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

class Attached {
 public:
  /// `key` names the job to `penstock ps`. Errors: those of penstock_pool_attach.
  static Result get(const std::string& spec, std::uint64_t key, int rank,
                    std::shared_ptr<Attached>& attached);
  /// To the pool of PENSTOCK_POOL, or else to that of a communicator there is. Errors:
  /// invalid_usage, there is none of either; those of get().
  static Result of_process(std::shared_ptr<Attached>& attached);
  /// Until the process ends: what it leaves in the pool for those that come later stays as long.
  static void keep(const penstock_pool_t* pool);
  ~Attached() { penstock_pool_detach(pool_); }
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

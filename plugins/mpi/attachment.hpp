// The pool of this process's windows.
#pragma once

#include <memory>

#include "pool_memory.hpp"
#include "session/session.hpp"
#include "word_memory.hpp"

namespace penstock::mpi {

struct Attachment {
  explicit Attachment(std::shared_ptr<plugin::Session> with)
      : session(std::move(with)), memory(*session->arena), words(memory) {}
  pool::Pool& pool() const { return *session->pool; }

  std::shared_ptr<plugin::Session> session;
  PoolMemory memory;
  WordMemory words;
};

/// Attaches at the first call, once MPI is initialized. Null: no pool is named, or it cannot be
/// used (which was reported then). Thread-safe.
Attachment* attachment();
/// The same on all ranks of a job, as it is an environment variable. Some may still have no
/// attachment; they take part in the collective steps of the others.
bool pool_is_named();
/// Releases the pool memory that this process allocated.
void detach();

}  // namespace penstock::mpi

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

/// Returns this process's attachment. The first call after MPI is initialized attaches. Null: no
/// pool is named, or it cannot be used, which the first call reported. Thread-safe.
Attachment* attachment();
/// True if an environment variable names a pool: the same on all ranks of a job. A rank may still
/// have no attachment; it then takes part in the collective steps all the same.
bool pool_is_named();
/// Releases the pool memory that this process allocated.
void detach();

}  // namespace penstock::mpi

// The base of all handles of the C interface: the process that made them, the calls that use them
// at the moment, and their end.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/fork.hpp"
#include "base/format.hpp"
#include "base/interruptible.hpp"
#include "capi/outcome.hpp"

namespace penstock::capi {

/// Whether a call may use its handle concurrently with other calls.
enum class Sharing : std::uint8_t { shared, alone };

class Handle {
 public:
  Handle() = default;
  virtual ~Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  /// Closes the handle: waits of other threads end, and the last call that uses it destroys it.
  /// Does nothing in a forked child.
  static void close(Handle* handle) noexcept;
  /// Ends present and later waits that use the handle; it stays open.
  void cancel() noexcept;
  /// Closes a handle that no call uses. True: the caller must call end(). It must not free the
  /// handle, because the program still has the pointer.
  bool close_if_unused();
  /// Releases what the handle holds. The last use of the handle.
  virtual void end() noexcept = 0;

  /// Begins a call. Errors: invalid_argument (in a forked child; the handle is closed; another
  /// thread uses it, and one of the two calls must be alone).
  Result<void> enter(const char* noun, Sharing sharing) const;
  /// Ends the call, and destroys a closed handle after its last call.
  void leave() const noexcept;
  /// Errors: unavailable (the wait of a call must end).
  Result<void> may_wait(const char* noun) const;

 private:
  const base::Origin origin_;
  mutable std::atomic<std::uint32_t> state_{0};  ///< number of calls, and marks
};

/// Errors: unavailable (the program's function, penstock_interrupt_by, ends this thread's waits).
Result<void> check_interrupt();

/// Calls leave() for an entered handle in the destructor.
class Leaving {
 public:
  explicit Leaving(const Handle& handle) : handle_(handle) {}
  ~Leaving() { handle_.leave(); }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

 private:
  const Handle& handle_;
};

/// Runs `body(handle)`, which returns a Result or a status, as a call that uses the handle. `Kind`
/// has a `noun`.
template <class Kind, class Body>
penstock_status_t use(Kind* handle, Sharing sharing, Body&& body) noexcept {
  return guarded([&] {
    if (handle == nullptr)
      return report(fail(ErrorCode::invalid_argument, "the {} is NULL", Kind::noun).value());
    if (const auto entered = handle->enter(Kind::noun, sharing); !entered)
      return report(entered.error());
    const Leaving leaving(*handle);
    const base::DeadCheck check = [handle]() -> Result<void> {
      PENSTOCK_TRY(handle->may_wait(Kind::noun));
      return check_interrupt();
    };
    const base::Interruptible interruptible(check);
    return report(std::forward<Body>(body)(*handle));
  });
}

template <class Kind, class Body>
penstock_status_t use(Kind* handle, Body&& body) noexcept {
  return use(handle, Sharing::shared, std::forward<Body>(body));
}

}  // namespace penstock::capi

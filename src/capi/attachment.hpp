// Attachments, and the handles made from them: those of pools and of objects.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string_view>

#include "arena/arena.hpp"
#include "capi/handle.hpp"
#include "penstock/penstock.h"
#include "pool/pool.hpp"

namespace penstock::capi {

/// Communicators that this process has closed: comm.hpp.
class ClosedComms;

/// Shared by all handles made from one attach; the last of them detaches. Members are destroyed in
/// reverse order.
struct Attachment {
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;
  bool of_penstock = false;  ///< may make and open objects with reserved names
  std::mutex mutex;          ///< guards `closed`
  std::shared_ptr<ClosedComms> closed;
};

Result<std::shared_ptr<Attachment>> attach(const char* spec,
                                           const penstock_attach_options_t* options);

/// True for an object of Penstock's own, which is hidden from callers.
bool is_hidden(const Attachment& attachment, std::string_view name);
/// Checks the arguments of a call that opens or makes an object: its name, and the place for the
/// handle. Errors: invalid_argument (one of them is null, or the object is hidden).
Result<void> check_named(const Attachment& attachment, const char* name, const void* place);

/// True once the program's exit handlers have run; after that nothing waits for other processes.
bool process_is_ending();

/// A handle that is closed at the end of the process, if not earlier.
class AttachedHandle : public Handle {
 public:
  explicit AttachedHandle(std::shared_ptr<Attachment> to);
  void end() noexcept final;

  std::shared_ptr<Attachment> attachment;

 protected:
  /// Called before the handle releases the attachment.
  virtual void release_contents() {}

 private:
  std::list<AttachedHandle*>::iterator listed_;
};

}  // namespace penstock::capi

struct penstock_pool final : penstock::capi::AttachedHandle {
  static constexpr const char* noun = "pool";
  using AttachedHandle::AttachedHandle;
};

struct penstock_object final : penstock::capi::AttachedHandle {
  static constexpr const char* noun = "object";
  penstock_object(std::shared_ptr<penstock::capi::Attachment> to, penstock::arena::Object found)
      : AttachedHandle(std::move(to)), object(std::move(found)) {}

  penstock::arena::Object object;
  bool is_gone = false;  ///< destroyed by this handle: another object may have its space

 private:
  /// Unpublished stores of this process must not be written back after the space has a new owner.
  void release_contents() override {
    if (!is_gone) attachment->arena->publish_stores(object);
  }
};

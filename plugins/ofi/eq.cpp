#include "eq.hpp"

#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "lib.hpp"
#include "waiting.hpp"

namespace penstock::ofi {

void Eq::push(Event event) {
  {
    const std::lock_guard<std::mutex> guard(mutex);
    events.push_back(std::move(event));
    if (wake_fd.get() >= 0) eventfd_write(wake_fd.get(), 1);
  }
  news.notify_one();
}

void Eq::pop() {
  events.pop_front();
  eventfd_t count;
  if (wake_fd.get() >= 0) eventfd_read(wake_fd.get(), &count);
}

void Eq::push_av_complete(::fid* object, void* context, std::uint64_t count) {
  fi_eq_entry entry{object, context, count};
  Event event;
  event.kind = FI_AV_COMPLETE;
  event.bytes.resize(sizeof(entry));
  std::memcpy(event.bytes.data(), &entry, sizeof(entry));
  push(std::move(event));
}

void Eq::push_error(::fid* object, void* context, std::uint64_t data, int error) {
  Event event;
  event.is_error = true;
  event.error.fid = object;
  event.error.context = context;
  event.error.data = data;
  event.error.err = error;
  event.error.prov_errno = error;
  push(std::move(event));
}

namespace {

Eq& eq_of(fid_eq* self) {
  return *static_cast<Eq*>(self);
}

int close_eq(fid* self) {
  Eq& eq = eq_of(reinterpret_cast<fid_eq*>(self));
  if (eq.users.load() != 0) return -FI_EBUSY;
  eq.fabric->users.fetch_sub(1);
  delete &eq;
  return 0;
}

/// Reads the first event. The caller holds the mutex.
ssize_t take(Eq& eq, std::uint32_t* kind, void* buffer, std::size_t bytes, std::uint64_t flags) {
  if (eq.events.empty()) return -FI_EAGAIN;
  const Eq::Event& event = eq.events.front();
  if (event.is_error) return -FI_EAVAIL;
  if (bytes < event.bytes.size()) return -FI_ETOOSMALL;
  *kind = event.kind;
  const std::size_t size = event.bytes.size();
  if (size != 0) std::memcpy(buffer, event.bytes.data(), size);
  if ((flags & FI_PEEK) == 0) eq.pop();
  return static_cast<ssize_t>(size);
}

ssize_t read_eq(fid_eq* self, std::uint32_t* kind, void* buffer, std::size_t bytes,
                std::uint64_t flags) {
  Eq& eq = eq_of(self);
  const std::lock_guard<std::mutex> guard(eq.mutex);
  return take(eq, kind, buffer, bytes, flags);
}

ssize_t readerr_eq(fid_eq* self, fi_eq_err_entry* entry, std::uint64_t flags) {
  Eq& eq = eq_of(self);
  const std::lock_guard<std::mutex> guard(eq.mutex);
  if (eq.events.empty() || !eq.events.front().is_error) return -FI_EAGAIN;
  *entry = eq.events.front().error;
  if ((flags & FI_PEEK) == 0) eq.pop();
  return sizeof(*entry);
}

ssize_t write_eq(fid_eq* self, std::uint32_t kind, const void* buffer, std::size_t bytes,
                 std::uint64_t) {
  Eq& eq = eq_of(self);
  return guarded([&]() -> int {
    Eq::Event event;
    event.kind = kind;
    const auto* from = static_cast<const unsigned char*>(buffer);
    event.bytes.assign(from, from + bytes);
    eq.push(std::move(event));
    return static_cast<int>(bytes);
  });
}

ssize_t sread_eq(fid_eq* self, std::uint32_t* kind, void* buffer, std::size_t bytes, int timeout_ms,
                 std::uint64_t flags) {
  Eq& eq = eq_of(self);
  std::unique_lock<std::mutex> lock(eq.mutex);
  const auto something = [&eq] { return !eq.events.empty(); };
  if (timeout_ms < 0) {
    eq.news.wait(lock, something);
  } else {
    eq.news.wait_for(lock, std::chrono::milliseconds(timeout_ms), something);
  }
  return take(eq, kind, buffer, bytes, flags);
}

const char* strerror_eq(fid_eq*, int number, const void*, char* text, std::size_t length) {
  const char* meaning = fi_strerror(number);
  if (text != nullptr && length > 0) {
    std::strncpy(text, meaning, length - 1);
    text[length - 1] = '\0';
  }
  return meaning;
}

int control_eq(fid* self, int command, void* argument) {
  const Eq& eq = eq_of(reinterpret_cast<fid_eq*>(self));
  if (command != FI_GETWAIT || eq.wake_fd.get() < 0) {
    return control_wait_object(eq.wait_object, command, argument);
  }
  *static_cast<int*>(argument) = eq.wake_fd.get();
  return 0;
}

fi_ops eq_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_eq,
    .bind = no_bind,
    .control = control_eq,
    .ops_open = no_ops_open,
};

fi_ops_eq eq_ops = {
    .size = sizeof(fi_ops_eq),
    .read = read_eq,
    .readerr = readerr_eq,
    .write = write_eq,
    .sread = sread_eq,
    .strerror = strerror_eq,
};

}  // namespace

int open_eq(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** result, void* context) {
  const fi_wait_obj wait = attr != nullptr ? attr->wait_obj : FI_WAIT_NONE;
  if (wait != FI_WAIT_FD && !can_wait_by(wait, "event queue")) return -FI_ENOSYS;
  return guarded([&]() -> int {
    auto eq = std::make_unique<Eq>();
    if (wait == FI_WAIT_FD) {
      eq->wake_fd = base::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
      if (eq->wake_fd.get() < 0) return -errno;
    }
    eq->fabric = static_cast<Fabric*>(fabric);
    eq->fabric->users.fetch_add(1);
    eq->fid = {FI_CLASS_EQ, context, &eq_fid_ops};
    eq->ops = &eq_ops;
    eq->wait_object = wait;
    *result = eq.release();
    return 0;
  });
}

}  // namespace penstock::ofi

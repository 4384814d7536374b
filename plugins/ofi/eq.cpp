#include "eq.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/wait.hpp"
#include "lib.hpp"

namespace penstock::ofi {

void Eq::push_av_complete(::fid* object, void* context, std::uint64_t count) {
  fi_eq_entry entry{object, context, count};
  Event event;
  event.kind = FI_AV_COMPLETE;
  event.bytes.resize(sizeof(entry));
  std::memcpy(event.bytes.data(), &entry, sizeof(entry));
  const std::lock_guard<std::mutex> guard(mutex);
  events.push_back(std::move(event));
}

void Eq::push_error(::fid* object, void* context, std::uint64_t data, int error) {
  Event event;
  event.is_error = true;
  event.error.fid = object;
  event.error.context = context;
  event.error.data = data;
  event.error.err = error;
  event.error.prov_errno = error;
  const std::lock_guard<std::mutex> guard(mutex);
  events.push_back(std::move(event));
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

ssize_t read_eq(fid_eq* self, std::uint32_t* kind, void* buffer, std::size_t bytes,
                std::uint64_t flags) {
  Eq& eq = eq_of(self);
  const std::lock_guard<std::mutex> guard(eq.mutex);
  if (eq.events.empty()) return -FI_EAGAIN;
  const Eq::Event& event = eq.events.front();
  if (event.is_error) return -FI_EAVAIL;
  if (bytes < event.bytes.size()) return -FI_ETOOSMALL;
  *kind = event.kind;
  const std::size_t size = event.bytes.size();
  std::memcpy(buffer, event.bytes.data(), size);
  if ((flags & FI_PEEK) == 0) eq.events.pop_front();
  return static_cast<ssize_t>(size);
}

ssize_t readerr_eq(fid_eq* self, fi_eq_err_entry* entry, std::uint64_t flags) {
  Eq& eq = eq_of(self);
  const std::lock_guard<std::mutex> guard(eq.mutex);
  if (eq.events.empty() || !eq.events.front().is_error) return -FI_EAGAIN;
  *entry = eq.events.front().error;
  if ((flags & FI_PEEK) == 0) eq.events.pop_front();
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
    const std::lock_guard<std::mutex> guard(eq.mutex);
    eq.events.push_back(std::move(event));
    return static_cast<int>(bytes);
  });
}

ssize_t sread_eq(fid_eq* self, std::uint32_t* kind, void* buffer, std::size_t bytes, int timeout_ms,
                 std::uint64_t flags) {
  const std::uint64_t start = base::now_ns();
  base::Backoff backoff;
  for (;;) {
    const ssize_t got = read_eq(self, kind, buffer, bytes, flags);
    if (got != -FI_EAGAIN) return got;
    if (timeout_ms >= 0 &&
        base::now_ns() - start >= static_cast<std::uint64_t>(timeout_ms) * 1'000'000) {
      return -FI_EAGAIN;
    }
    backoff.idle();
  }
}

const char* strerror_eq(fid_eq*, int number, const void*, char* text, std::size_t length) {
  const char* meaning = fi_strerror(number);
  if (text != nullptr && length > 0) {
    std::strncpy(text, meaning, length - 1);
    text[length - 1] = '\0';
  }
  return meaning;
}

fi_ops eq_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_eq,
    .bind = no_bind,
    .control = no_control,
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
  if (attr != nullptr) {
    const fi_wait_obj wait = attr->wait_obj;
    if (wait != FI_WAIT_NONE && wait != FI_WAIT_UNSPEC && wait != FI_WAIT_YIELD) {
      return -FI_ENOSYS;
    }
  }
  return guarded([&]() -> int {
    auto* eq = new Eq;
    eq->fabric = static_cast<Fabric*>(fabric);
    eq->fabric->users.fetch_add(1);
    eq->fid = {FI_CLASS_EQ, context, &eq_fid_ops};
    eq->ops = &eq_ops;
    *result = eq;
    return 0;
  });
}

}  // namespace penstock::ofi

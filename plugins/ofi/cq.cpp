#include "cq.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/log.hpp"
#include "ep.hpp"
#include "lib.hpp"
#include "waiting.hpp"

namespace penstock::ofi {

namespace {
constexpr std::size_t first_ring = 256;
constexpr std::uint32_t polls_between_looks = 1u << 18;  // between counts of waiting processes
}  // namespace

Cq::~Cq() {
  for (; head_ != tail_; ++head_) {
    const Completion& entry = ring_[head_ & mask_];
    if (entry.flags == error_mark) delete static_cast<CompletionError*>(entry.buffer);
  }
  std::free(ring_);
}

bool Cq::grow() {
  const std::size_t old_size = ring_ == nullptr ? 0 : mask_ + 1;
  const std::size_t size = old_size == 0 ? first_ring : old_size * 2;
  auto* bigger = static_cast<Completion*>(std::malloc(size * sizeof(Completion)));
  if (bigger == nullptr) {
    if (!lost_) {
      base::log(base::Level::error, "out of memory: no room for more than {} completions",
                old_size);
    }
    lost_ = true;
    return false;
  }
  for (std::uint64_t i = head_; i != tail_; ++i) bigger[i & (size - 1)] = ring_[i & mask_];
  std::free(ring_);
  ring_ = bigger;
  mask_ = size - 1;
  return true;
}

void Cq::push_error(const CompletionError& error) {
  auto* kept = new (std::nothrow) CompletionError(error);
  if (kept == nullptr) {
    lost_ = true;
    return;
  }
  Completion entry;
  entry.flags = error_mark;
  entry.buffer = kept;
  push(entry);
}

void Cq::progress() {
  for (Ep* ep : endpoints) ep->progress();
}

bool Cq::tired() {
  if (++empty_polls_ == polls_between_looks) {
    empty_polls_ = 0;
    backoff.set(wait_policy(*domain->session));
  }
  return backoff.spent();
}

ssize_t Cq::read(void* buffer, std::size_t count, fi_addr_t* sources) {
  if (head_ == tail_ || count == 0) {
    progress();
    if (head_ == tail_) return lost_ ? -FI_EOVERRUN : -FI_EAGAIN;
  }
  backoff.busy();
  auto* out = static_cast<std::byte*>(buffer);
  std::size_t taken = 0;
  for (; taken < count && head_ != tail_; ++taken, ++head_) {
    const Completion& entry = ring_[head_ & mask_];
    if (entry.flags == error_mark) {
      if (taken == 0) return -FI_EAVAIL;
      break;
    }
    if (entry_bytes == sizeof(fi_cq_tagged_entry)) {
      std::memcpy(out, &entry, sizeof(fi_cq_tagged_entry));
    } else {
      std::memcpy(out, &entry, entry_bytes);
    }
    out += entry_bytes;
    if (sources != nullptr) sources[taken] = entry.source;
  }
  return static_cast<ssize_t>(taken);
}

ssize_t Cq::read_error(fi_cq_err_entry* entry) {
  if (head_ == tail_) progress();
  if (head_ == tail_ || ring_[head_ & mask_].flags != error_mark) return -FI_EAGAIN;
  auto* error = static_cast<CompletionError*>(ring_[head_++ & mask_].buffer);
  entry->op_context = error->what.context;
  entry->flags = error->what.flags;
  entry->len = error->what.bytes;
  entry->buf = error->what.buffer;
  entry->data = error->what.data;
  entry->tag = error->what.tag;
  entry->olen = error->overflow;
  entry->err = error->error;
  entry->prov_errno = error->detail != 0 ? error->detail : -error->error;
  const char* text = remembered_text(error->detail);
  error_text_ = text != nullptr ? text : "";
  if (FI_VERSION_GE(domain->api_version, FI_VERSION(1, 5))) {
    const std::size_t size = error_text_.empty() ? 0 : error_text_.size() + 1;
    if (entry->err_data != nullptr && entry->err_data_size != 0) {
      entry->err_data_size = std::min(entry->err_data_size, size);
      std::memcpy(entry->err_data, error_text_.c_str(), entry->err_data_size);
    } else {
      entry->err_data = size != 0 ? error_text_.data() : nullptr;
      entry->err_data_size = size;
    }
  } else {
    entry->err_data = nullptr;
  }
  delete error;
  return 1;
}

namespace {

Cq& cq_of(fid_cq* self) {
  return *static_cast<Cq*>(self);
}

/// Reads completions. After an empty read the thread may yield the core and read once more: that is
/// cheaper than to return to the caller's loop, which may yield too.
ssize_t read_from(fid_cq* self, void* buffer, std::size_t count, fi_addr_t* sources) {
  Cq& cq = cq_of(self);
  for (bool first = true;; first = false) {
    ssize_t got;
    bool tired = false;
    {
      Guard guard(*cq.domain);
      got = cq.read(buffer, count, sources);
      if (got == -FI_EAGAIN) tired = cq.tired();
    }
    start_triggered(*cq.domain);
    if (!tired || !first) return got;
    base::Backoff::yield();
  }
}

ssize_t read(fid_cq* self, void* buffer, std::size_t count) {
  return read_from(self, buffer, count, nullptr);
}

ssize_t readerr(fid_cq* self, fi_cq_err_entry* entry, std::uint64_t) {
  Cq& cq = cq_of(self);
  Guard guard(*cq.domain);
  return cq.read_error(entry);
}

/// True if the queue holds at least `threshold` completions, or the threshold is 0 or 1.
bool enough(Cq& cq, std::size_t threshold) {
  if (threshold <= 1 || cq.pending() >= threshold) return true;
  cq.progress();
  return cq.pending() >= threshold;
}

/// Polls once for fi_cq_sread. -FI_EAGAIN: keep waiting.
ssize_t read_enough(Cq& cq, void* buffer, std::size_t count, fi_addr_t* sources,
                    std::size_t threshold) {
  ssize_t got = -FI_EAGAIN;
  {
    Guard guard(*cq.domain);
    if (enough(cq, threshold)) got = cq.read(buffer, count, sources);
  }
  start_triggered(*cq.domain);
  return got;
}

/// fi_cq_sread. A signal wakes all waiting threads; if no thread waits, it wakes the next one that
/// does.
ssize_t sread_from(fid_cq* self, void* buffer, std::size_t count, fi_addr_t* sources,
                   const void* condition, int timeout_ms) {
  Cq& cq = cq_of(self);
  const std::size_t threshold =
      cq.by_threshold && condition != nullptr
          ? std::min(count, static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(condition)))
          : 1;
  const std::uint64_t handled = cq.signals_handled.load();
  ssize_t got = read_enough(cq, buffer, count, sources, threshold);
  if (got != -FI_EAGAIN) return got;
  base::Waiter waiter = waiter_for("a completion", timeout_ms, *cq.domain);
  for (;;) {
    if (const std::uint64_t signals = cq.signals.load(); signals != handled) {
      cq.signals_handled.store(signals);
      return -FI_EAGAIN;
    }
    const bool late = timeout_ms == 0 || !waiter.pause();
    got = read_enough(cq, buffer, count, sources, late ? 1 : threshold);
    if (got != -FI_EAGAIN || late) return got;
  }
}

ssize_t sread(fid_cq* self, void* buffer, std::size_t count, const void* condition,
              int timeout_ms) {
  return sread_from(self, buffer, count, nullptr, condition, timeout_ms);
}

int signal_waiters(fid_cq* self) {
  cq_of(self).signals.fetch_add(1);
  return 0;
}

const char* strerror_of(fid_cq*, int number, const void* data, char* text, std::size_t length) {
  const char* meaning = number > 0 ? remembered_text(number) : nullptr;
  if (meaning == nullptr && data != nullptr && number > 0) meaning = static_cast<const char*>(data);
  if (meaning == nullptr) meaning = fi_strerror(number < 0 ? -number : number);
  if (text != nullptr && length > 0) {
    std::strncpy(text, meaning, length - 1);
    text[length - 1] = '\0';
  }
  return meaning;
}

int close_cq(fid* self) {
  Cq& cq = cq_of(reinterpret_cast<fid_cq*>(self));
  if (cq.users.load() != 0) return -FI_EBUSY;
  cq.domain->users.fetch_sub(1);
  delete &cq;
  return 0;
}

int control_cq(fid* self, int command, void* argument) {
  return control_wait_object(cq_of(reinterpret_cast<fid_cq*>(self)).wait_object, command, argument);
}

std::size_t bytes_of(fi_cq_format format) {
  switch (format) {
    case FI_CQ_FORMAT_UNSPEC:
    case FI_CQ_FORMAT_CONTEXT:
      return sizeof(fi_cq_entry);
    case FI_CQ_FORMAT_MSG:
      return sizeof(fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA:
      return sizeof(fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
      return sizeof(fi_cq_tagged_entry);
  }
  return 0;
}

fi_ops cq_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_cq,
    .bind = no_bind,
    .control = control_cq,
    .ops_open = no_ops_open,
};

fi_ops_cq cq_ops = {
    .size = sizeof(fi_ops_cq),
    .read = read,
    .readfrom = read_from,
    .readerr = readerr,
    .sread = sread,
    .sreadfrom = sread_from,
    .signal = signal_waiters,
    .strerror = strerror_of,
};

}  // namespace

int open_cq(fid_domain* self, fi_cq_attr* attr, fid_cq** result, void* context) {
  if (attr == nullptr) return -FI_EINVAL;
  if (!can_wait_by(attr->wait_obj, "completion queue")) return -FI_ENOSYS;
  if (attr->flags & ~static_cast<std::uint64_t>(FI_AFFINITY)) return -FI_EINVAL;
  const std::size_t entry_bytes = bytes_of(attr->format);
  if (entry_bytes == 0) return -FI_ENOSYS;
  return guarded([&]() -> int {
    auto* cq = new Cq;
    cq->domain = static_cast<Domain*>(self);
    cq->domain->users.fetch_add(1);
    cq->fid = {FI_CLASS_CQ, context, &cq_fid_ops};
    cq->ops = &cq_ops;
    cq->entry_bytes = entry_bytes;
    cq->by_threshold = attr->wait_cond == FI_CQ_COND_THRESHOLD;
    cq->wait_object = attr->wait_obj;
    cq->backoff.set(wait_policy(*cq->domain->session));
    if (attr->format == FI_CQ_FORMAT_UNSPEC) attr->format = FI_CQ_FORMAT_CONTEXT;
    *result = cq;
    return 0;
  });
}

}  // namespace penstock::ofi

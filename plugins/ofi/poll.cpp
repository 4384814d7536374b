// Poll sets: poll several queues and counters at once.
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "cntr.hpp"
#include "cq.hpp"
#include "lib.hpp"

namespace penstock::ofi {

namespace {

struct Member {
  Cq* cq = nullptr;
  Cntr* cntr = nullptr;
  std::uint64_t seen = 0;  ///< the counter's value at the last poll

  void* context() const { return cq != nullptr ? cq->fid.context : cntr->fid.context; }
  std::atomic<int>& users() const { return cq != nullptr ? cq->users : cntr->users; }
  bool is(const fid* object) const {
    return (cq != nullptr && &cq->fid == object) || (cntr != nullptr && &cntr->fid == object);
  }
  /// Makes progress; true if there is a new completion.
  bool ask() {
    if (cq != nullptr) {
      bool pending;
      {
        const Guard guard(*cq->domain);
        if (cq->pending() == 0) cq->progress();
        pending = cq->pending() != 0;
      }
      start_triggered(*cq->domain);
      return pending;
    }
    cntr->progress();
    const std::uint64_t now = cntr->value.load() + cntr->errors.load();
    return std::exchange(seen, now) != now;
  }
};

struct Poll : fid_poll {
  Domain* domain = nullptr;
  std::mutex mutex;
  std::vector<Member> members;
};

int poll_all(fid_poll* self, void** contexts, int count) {
  auto* poll = static_cast<Poll*>(self);
  int ready = 0;
  const std::lock_guard<std::mutex> guard(poll->mutex);
  for (Member& member : poll->members) {
    if (ready == count) break;
    if (member.ask()) contexts[ready++] = member.context();
  }
  return ready;
}

int poll_add(fid_poll* self, fid* object, std::uint64_t flags) {
  if (flags != 0) return -FI_EINVAL;
  Member member;
  if (object->fclass == FI_CLASS_CQ) {
    member.cq = static_cast<Cq*>(reinterpret_cast<fid_cq*>(object));
  } else if (object->fclass == FI_CLASS_CNTR) {
    member.cntr = static_cast<Cntr*>(reinterpret_cast<fid_cntr*>(object));
  } else {
    return -FI_EINVAL;
  }
  auto* poll = static_cast<Poll*>(self);
  return guarded([&]() -> int {
    const std::lock_guard<std::mutex> guard(poll->mutex);
    poll->members.push_back(member);
    member.users().fetch_add(1);
    return 0;
  });
}

int poll_del(fid_poll* self, fid* object, std::uint64_t) {
  auto* poll = static_cast<Poll*>(self);
  const std::lock_guard<std::mutex> guard(poll->mutex);
  auto& members = poll->members;
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.is(object); });
  if (found == members.end()) return -FI_EINVAL;
  found->users().fetch_sub(1);
  members.erase(found);
  return 0;
}

int close_poll(fid* self) {
  auto* poll = static_cast<Poll*>(reinterpret_cast<fid_poll*>(self));
  for (Member& member : poll->members) member.users().fetch_sub(1);
  poll->domain->users.fetch_sub(1);
  delete poll;
  return 0;
}

fi_ops poll_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_poll,
    .bind = no_bind,
    .control = no_control,
    .ops_open = no_ops_open,
};

fi_ops_poll poll_ops = {
    .size = sizeof(fi_ops_poll), .poll = poll_all, .poll_add = poll_add, .poll_del = poll_del};

}  // namespace

int open_poll(fid_domain* self, fi_poll_attr* attr, fid_poll** result) {
  if (attr != nullptr && attr->flags != 0) return -FI_EINVAL;
  return guarded([&]() -> int {
    auto* poll = new Poll;
    poll->domain = static_cast<Domain*>(self);
    poll->domain->users.fetch_add(1);
    poll->fid = {FI_CLASS_POLL, nullptr, &poll_fid_ops};
    poll->ops = &poll_ops;
    *result = poll;
    return 0;
  });
}

}  // namespace penstock::ofi

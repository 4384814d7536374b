// A barrier of a group: sync::Barrier's lines, waited for as a group waits. All ranks agree that
// all have come; what each published before is visible to what the others observe after.
#pragma once

#include "group/group.hpp"

namespace penstock::group {

class Barrier {
 public:
  /// `lines`: sync::Barrier::bytes(ranks) in the pool, zeroed and published before the first use.
  Barrier(Group& group, void* lines)
      : group_(group),
        lines_(group.memory, lines, group.ranks(), group.self(), group.token(group.self()),
               group.alive_check()) {}

  /// Comes, without waiting. One line is written.
  void arrive() { lines_.arrive(); }
  /// After arrive(): waits until all ranks have come as often. Errors: peer_dead.
  Result<void> await_others(const char* what) {
    lines_.others(missing_);
    auto all = group_.wait(what, missing_, [this] { lines_.drop_arrived(missing_); });
    if (all) lines_.pass();
    return all;
  }
  Result<void> meet(const char* what) {
    arrive();
    return await_others(what);
  }

 private:
  Group& group_;
  sync::Barrier lines_;
  Missing missing_;
};

}  // namespace penstock::group

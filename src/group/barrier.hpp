// A barrier of a group: the lines of sync::Barrier, the waiting of Group. After it each rank
// observes what the others published before it.
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

  /// Announces this rank without waiting. Writes one line.
  void arrive() { lines_.arrive(); }
  /// Waits until all ranks have called arrive() as often as this one. Errors: peer_dead.
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

// State that the parts of a window share: its group, its segments, and the locations of its words.
#pragma once

#include <utility>
#include <vector>

#include "group/group.hpp"
#include "window/layout.hpp"
#include "window/window.hpp"

namespace penstock::window {

using group::Missing;

class Context : public group::Group {
 public:
  Context(pool::Pool& the_pool, Options the_options)
      : Group(the_pool, {.tokens = by_rank(the_options.members, &Member::token),
                         .nodes = by_rank(the_options.members, &Member::node),
                         .self = the_options.self,
                         .noun = "window",
                         .idle = std::move(the_options.idle)}),
        options(std::move(the_options)) {}

  const Options options;

  const Member& member(std::uint32_t rank) const { return options.members[rank]; }
  const Member& own() const { return member(self()); }
  const CallNames& names() const { return options.names; }
  std::byte* at(std::uint64_t offset) const { return pool.base() + offset; }
  std::byte* segment(std::uint32_t rank) const { return at(member(rank).offset); }
  std::byte* line(RankLine which, std::uint32_t rank) const {
    return at(place_of(which, member(rank).words));
  }
  /// True if an offset read from the pool is valid for `bytes`, in whole lines. 0 is never valid.
  bool is_place(std::uint64_t offset, std::uint64_t bytes) const {
    return offset != 0 && offset % line_bytes == 0 && pool.at(offset, bytes) != nullptr;
  }
  /// More memory for this rank's words, zeroed before any later publish of this thread. Errors:
  /// no_space.
  Result<std::uint64_t> more(std::uint64_t bytes) const;

 private:
  template <class Part>
  static std::vector<Part> by_rank(const std::vector<Member>& members, Part Member::*part) {
    std::vector<Part> parts;
    parts.reserve(members.size());
    for (const Member& member : members) parts.push_back(member.*part);
    return parts;
  }
};

}  // namespace penstock::window

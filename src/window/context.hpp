// State that the parts of a window share: its group, its segments, and the offsets of its words.
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
      : Group(the_pool, {.tokens = tokens_of(the_options.members),
                         .self = the_options.self,
                         .noun = "window",
                         .idle = std::move(the_options.idle)}),
        options(std::move(the_options)),
        layout(ranks()) {}

  const Options options;
  const Layout layout;

  const Member& member(std::uint32_t rank) const { return options.members[rank]; }
  const Member& own() const { return member(self()); }
  const CallNames& names() const { return options.names; }
  std::byte* sync_area(std::uint64_t offset) const {
    return pool.base() + options.sync_area + offset;
  }
  std::byte* segment(std::uint32_t rank) const { return pool.base() + member(rank).offset; }

 private:
  static std::vector<std::uint64_t> tokens_of(const std::vector<Member>& members) {
    std::vector<std::uint64_t> tokens;
    for (const Member& member : members) tokens.push_back(member.token);
    return tokens;
  }
};

}  // namespace penstock::window

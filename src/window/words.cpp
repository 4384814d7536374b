#include "window/words.hpp"

#include <algorithm>

namespace penstock::window {

void Words::tell(std::span<const std::uint32_t> readers) {
  const auto& memory = context_.memory;
  memory.order();  // what the word announces is there before it
  for (const std::uint32_t reader : readers)
    memory.publish_word(word(reader, context_.self()), ++told_[reader]);
  memory.order();  // pairs with drop_those_who_told: nothing stays in a buffer here
}

void Words::tell(std::uint32_t reader, std::uint64_t value) {
  const auto& memory = context_.memory;
  memory.order();
  memory.publish_word(word(reader, context_.self()), value);
  memory.order();  // pairs with observe_row and drop_those_who_told
}

void Words::await(std::span<const std::uint32_t> writers) {
  for (const std::uint32_t writer : writers) ++awaited_[writer];
}

void Words::drop_those_who_told(Missing& missing) const {
  const auto& memory = context_.memory;
  for (const std::uint32_t writer : missing)
    memory.invalidate(word(context_.self(), writer), sizeof(std::uint64_t));
  memory.settle();
  std::erase_if(missing, [&](std::uint32_t writer) {
    return memory.load_word(word(context_.self(), writer)) >= awaited_[writer];
  });
}

void Words::observe_row(std::vector<std::uint64_t>& words) const {
  const auto& memory = context_.memory;
  memory.invalidate(word(context_.self(), 0), 8ull * context_.ranks());
  memory.settle();
  words.resize(context_.ranks());
  for (std::uint32_t writer = 0; writer < context_.ranks(); ++writer)
    words[writer] = memory.load_word(word(context_.self(), writer));
}

}  // namespace penstock::window

#include "nccl/meeting_entries.hpp"

#include <cstring>

namespace penstock::nccl {

namespace {

constexpr std::uint64_t line = 64, state_at = line - sizeof(std::uint64_t);

struct Content {
  std::uint64_t token = 0;
  std::byte data[MeetingEntries::max_bytes] = {};
};
static_assert(line + sizeof(Content) <= MeetingEntries::bytes_of_rank);

}  // namespace

void MeetingEntries::write(int rank, std::uint64_t token, const void* data, std::uint64_t bytes) {
  Content content{.token = token};
  std::memcpy(content.data, data, bytes);
  (void)penstock_write(pool_, place(rank) + line, &content, sizeof content.token + bytes);
  set_state(rank, present());
}

std::optional<std::uint64_t> MeetingEntries::read(int rank, void* data, std::uint64_t bytes) const {
  const std::uint64_t found = state(rank);
  if (found != present() && found != done()) return std::nullopt;
  Content content;
  (void)penstock_read(pool_, &content, place(rank) + line, sizeof content.token + bytes);
  std::memcpy(data, content.data, bytes);
  return content.token;
}

void MeetingEntries::leave(int rank) {
  set_state(rank, done());
}

bool MeetingEntries::has_left(int rank) const {
  return state(rank) == done();
}

void MeetingEntries::set_state(int rank, std::uint64_t state) {
  (void)penstock_write(pool_, place(rank) + state_at, &state, sizeof state);
}

std::uint64_t MeetingEntries::state(int rank) const {
  std::uint64_t found = 0;
  (void)penstock_read(pool_, &found, place(rank) + state_at, sizeof found);
  return found;
}

}  // namespace penstock::nccl

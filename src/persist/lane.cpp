#include "persist/lane.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace penstock::persist {

Lane::Lane(const Device& device, const arena::Object& log, std::uint64_t pool_id)
    : device_(device),
      state_(device, log.offset, page_bytes, key_of(pool_id, log.generation, Kind::log)),
      first_(log.offset + std::min(pair_bytes, log.bytes)),
      end_(log.offset + log.bytes / line_bytes * line_bytes),
      key_(key_of(pool_id, log.generation, Kind::entry)) {
  const auto now = state_.latest();
  if (now) step_ = now->step;
}

std::optional<std::uint64_t> Lane::active() const {
  const auto now = state_.latest();
  if (!now || now->words[0] != static_cast<std::uint64_t>(State::active)) return std::nullopt;
  return now->words[1];
}

void Lane::set(State state, std::uint64_t transaction) {
  PairLine line;
  line.words[0] = static_cast<std::uint64_t>(state);
  line.words[1] = transaction;
  state_.publish_line(++step_, line);  // pairs with active()
}

std::uint64_t Lane::checksum(const EntryHeader& header, std::uint64_t bytes_hash) const {
  return checksum_of(header, bytes_hash);
}

/// In small pieces, which stay in the cache between load and hash.
template <class Visit>
void Lane::for_chunks(std::uint64_t from, std::uint64_t bytes, Visit visit) const {
  alignas(line_bytes) std::byte chunk[page_bytes];
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t part = std::min<std::uint64_t>(sizeof chunk, bytes - done);
    device_.load_bulk(from + done, chunk, part);
    visit(chunk, done, part);
    done += part;
  }
}

Entry Lane::append(std::uint64_t place, const arena::Object& object, EntryHeader header) const {
  const std::uint64_t from = object.offset + header.offset;
  device_.invalidate(from, header.bytes);  // another node may have been the last to write it
  device_.load_fence();
  std::uint64_t hash = key_;
  for_chunks(from, header.bytes, [&](const std::byte* chunk, std::uint64_t at, std::uint64_t part) {
    hash = base::xxh64(chunk, part, hash);
    device_.publish_bulk(place + line_bytes + at, chunk, part);
  });
  header.magic = entry_magic;
  header.slot = object.slot;
  header.generation = object.generation;
  header.checksum = checksum(header, hash);
  device_.publish_line(place, &header);  // pairs with read()
  return {header, place};
}

/// The caller has invalidated the lines and done a load fence.
std::optional<Entry> Lane::read(std::uint64_t place, std::uint64_t transaction) const {
  if (place >= end_) return std::nullopt;
  Entry entry{{}, place};
  const EntryHeader& header = entry.header;
  device_.load_line(place, &entry.header);
  const bool fits = header.bytes % line_bytes == 0 && header.bytes <= end_ - place - line_bytes;
  if (header.magic != entry_magic || header.transaction != transaction || !fits)
    return std::nullopt;
  std::uint64_t hash = key_;
  for_chunks(place + line_bytes, header.bytes,
             [&](const std::byte* chunk, std::uint64_t, std::uint64_t part) {
               hash = base::xxh64(chunk, part, hash);
             });
  if (header.checksum != checksum(header, hash)) return std::nullopt;
  return entry;
}

Result<std::vector<Entry>> Lane::entries(std::uint64_t transaction) const {
  std::vector<Entry> found;
  if (first_ >= end_) return found;
  device_.invalidate(first_, end_ - first_);
  device_.load_fence();
  std::uint64_t place = first_;
  while (const auto entry = read(place, transaction)) {
    if (entry->header.index != found.size()) break;
    found.push_back(*entry);
    place += needed(entry->header.bytes);
  }
  // Each entry was at the device before the next was begun.
  for (place += line_bytes; place < end_; place += line_bytes) {
    const auto later = read(place, transaction);
    if (later && later->header.index > found.size())
      return fail(ErrorCode::wrong_format,
                  "entry {} of a transaction is damaged, and entry {} stands behind it",
                  found.size(), later->header.index);
  }
  return found;
}

void Lane::restore(const Entry& entry, const arena::Object& object) const {
  const std::uint64_t to = object.offset + entry.header.offset;
  for_chunks(entry.place + line_bytes, entry.header.bytes,
             [&](const std::byte* chunk, std::uint64_t at, std::uint64_t part) {
               for (std::uint64_t done = 0; done < part; done += line_bytes)
                 device_.publish_line(to + at + done, chunk + done);
             });
}

}  // namespace penstock::persist

#include "messages/key_table.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace penstock::messages {

namespace {

constexpr std::size_t first_buckets = 64, kept_buckets = 1024;

struct Secret {
  std::uint64_t of_tag = 0x9e3779b97f4a7c15ull, of_source = 0xc2b2ae3d27d4eb4full, added = 0;
};
Secret draw_secret() {
  Secret secret;
  Secret drawn;
  if (getrandom(&drawn, sizeof drawn, 0) == sizeof drawn) secret = drawn;
  secret.of_tag |= 1;  // odd: tags stay apart
  secret.of_source |= 1;
  return secret;
}

/// A secret multiple of the tag and of the source, through the finalizer of splitmix64: tags that
/// differ in any bit get different buckets.
std::uint64_t hash_of(const Key& key) {
  static const Secret secret = draw_secret();
  std::uint64_t x = key.tag * secret.of_tag + key.source * secret.of_source + secret.added;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

}  // namespace

KeyTable::~KeyTable() {
  if (buckets_ != &only_) std::free(buckets_);
}

Group** KeyTable::bucket_of(const Key& key) const {
  return &buckets_[hash_of(key) & (bucket_count_ - 1)];
}

const Entry* KeyTable::find(const Key& key) const {
  for (const Group* group = *bucket_of(key); group != nullptr; group = group->next)
    if (group->key == key) return group->items.head();
  return nullptr;
}

/// If there is no memory for it, the chains grow longer.
void KeyTable::grow() {
  const std::size_t count = bucket_count_ == 1 ? first_buckets : 2 * bucket_count_;
  auto** const larger = static_cast<Group**>(std::calloc(count, sizeof(Group*)));
  if (larger == nullptr) return;
  Group** const old = buckets_;
  const std::size_t old_count = bucket_count_;
  buckets_ = larger;
  bucket_count_ = count;
  for (std::size_t i = 0; i < old_count; ++i) {
    while (Group* group = old[i]) {
      old[i] = group->next;
      Group** const bucket = bucket_of(group->key);
      group->next = *bucket;
      *bucket = group;
    }
  }
  if (old != &only_) std::free(old);
}

/// Called when the table is empty.
void KeyTable::shrink() {
  std::free(buckets_);
  buckets_ = &only_;
  bucket_count_ = 1;
}

std::size_t KeyTable::longest_chain() const {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < bucket_count_; ++i) {
    std::size_t keys = 0;
    for (const Group* group = buckets_[i]; group != nullptr; group = group->next) ++keys;
    longest = std::max(longest, keys);
  }
  return longest;
}

bool KeyTable::add(Indexed* item, const Key& key) {
  Entry* const entry = entries_.take();
  if (entry == nullptr) return false;
  Group** bucket = bucket_of(key);
  Group* group = *bucket;
  while (group != nullptr && !(group->key == key)) group = group->next;
  if (group == nullptr) {
    group = groups_.take();
    if (group == nullptr) {
      entries_.give(entry);
      return false;
    }
    if (groups_in_use_ >= bucket_count_) {
      grow();
      bucket = bucket_of(key);
    }
    *group = {this, *bucket, key, {}};
    *bucket = group;
    ++groups_in_use_;
  }
  entry->item = item;
  entry->group = group;
  entry->of_same_item = item->entries;
  item->entries = entry;
  group->items.push_back(entry);
  return true;
}

void KeyTable::remove_one(Indexed* item) {
  Entry* const entry = item->entries;
  item->entries = entry->of_same_item;
  Group* const group = entry->group;
  KeyTable& table = *group->table;
  group->items.remove(entry);
  table.entries_.give(entry);
  if (!group->items.empty()) return;
  Group** at = table.bucket_of(group->key);
  while (*at != group) at = &(*at)->next;
  *at = group->next;
  table.groups_.give(group);
  if (--table.groups_in_use_ == 0 && table.bucket_count_ > kept_buckets) table.shrink();
}

}  // namespace penstock::messages

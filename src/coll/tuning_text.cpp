// The text of a tuning table:
//
//   COLLECTIVE|all [ranks=RANGE] [bytes=RANGE] [per-node=RANGE] eager|ALGORITHM
//     [variant=NAME] [chunk=BYTES] [chunks=COUNT] [turns=1] [switch=1] [scratch=BYTES]
//
// RANGE: any, 4, 2-4 or 2-; bytes may end in K, M or G.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/nearest.hpp"
#include "coll/tuning.hpp"

namespace penstock::coll {

namespace {

using Words = std::vector<std::string>;

constexpr std::string_view blanks = " \t\r";

std::string joined(const Words& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

Words collective_names() {
  Words names;
  for (std::size_t i = 0; i < collective_count; ++i)
    names.emplace_back(name_of(static_cast<Collective>(i)));
  return names;
}
Words algorithm_names() {
  Words names;
  for (const Algorithm algorithm : all_algorithms) names.emplace_back(name_of(algorithm));
  return names;
}
Words variant_names() {
  Words names;
  for (const Variant variant : all_variants) names.emplace_back(name_of(variant));
  return names;
}

std::optional<std::size_t> position(const Words& words, std::string_view word) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return std::nullopt;
  return static_cast<std::size_t>(found - words.begin());
}

/// Such as: "alreduce" is no collective (did you mean allreduce?); needed: one of ...
std::string unknown(std::string_view word, const char* kind, const Words& known) {
  const std::string near = base::nearest(word, known);
  return fmt::format("\"{}\" is no {}{}; needed: one of {}", word, kind,
                     near.empty() ? "" : fmt::format(" (did you mean {}?)", near), joined(known));
}

Words words_of(std::string_view line) {
  Words words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(blanks, at);
    if (begin == std::string_view::npos) break;
    at = std::min(line.find_first_of(blanks, begin), line.size());
    words.emplace_back(line.substr(begin, at - begin));
  }
  return words;
}

/// Parses one entry. Errors do not name the line.
class Line {
 public:
  explicit Line(const Words& words) : words_(words) {}

  Result<TuningEntry> parse() {
    PENSTOCK_TRY(take_collective());
    for (std::size_t i = 1; i < words_.size(); ++i) PENSTOCK_TRY(take(words_[i]));
    if (!has_way_)
      return wrong(
          fmt::format("no plan is named; needed: eager, or one of {}", joined(algorithm_names())));
    Tuning alone;
    alone.entries = {entry_};
    if (auto valid = check(alone); !valid) {
      const std::string& message = valid.error().message;
      return wrong(message.substr(message.find(": ") + 2));
    }
    return entry_;
  }

 private:
  static tl::unexpected<Error> wrong(const std::string& what) {
    return fail(ErrorCode::invalid_argument, "{}", what);
  }

  Result<void> take_collective() {
    Words names = collective_names();
    if (const auto found = position(names, words_[0])) {
      entry_.collective = static_cast<Collective>(*found);
      return {};
    }
    names.emplace_back("all");
    if (words_[0] != "all") return wrong(unknown(words_[0], "collective", names));
    return {};
  }

  Result<void> take(const std::string& word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return take_way(word);
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (std::find(keys_.begin(), keys_.end(), key) != keys_.end())
      return wrong(fmt::format("{}= stands twice; leave one out", key));
    keys_.push_back(key);
    if (key == "ranks") return take_ranks(key, value, &entry_.min_ranks, &entry_.max_ranks);
    if (key == "per-node")
      return take_ranks(key, value, &entry_.min_per_node, &entry_.max_per_node);
    if (key == "bytes") return take_range(value, &entry_.min_bytes, &entry_.max_bytes);
    if (key == "variant") return take_variant(value);
    if (key == "chunk") {
      entry_.chunk_bytes = PENSTOCK_TRY(number(value));
      if (entry_.chunk_bytes == 0) return wrong("chunk=0; leave it out for a whole slot");
      return {};
    }
    if (key == "chunks") return take_chunks(value);
    if (key == "turns") return take_flag(key, value, &entry_.turns);
    if (key == "switch") return take_flag(key, value, &entry_.in_switch);
    if (key == "scratch") return take_scratch(value);
    return wrong(unknown(key, "key",
                         {"ranks", "bytes", "per-node", "variant", "chunk", "chunks", "turns",
                          "switch", "scratch"}));
  }

  Result<void> take_flag(const std::string& key, const std::string& value, bool* flag) {
    *flag = value == "1";
    if (value == "0" || value == "1") return {};
    return wrong(fmt::format("{}={}: 0 or 1 is needed", key, value));
  }

  Result<void> take_way(const std::string& word) {
    if (has_way_) return wrong(fmt::format("\"{}\" is a second plan; one is needed", word));
    has_way_ = true;
    Words names = algorithm_names();
    const auto found = position(names, word);
    names.insert(names.begin(), "eager");
    if (word == "eager")
      entry_.eager = true;
    else if (found)
      entry_.algorithm = all_algorithms[*found];
    else
      return wrong(unknown(word, "plan", names));
    return {};
  }

  Result<void> take_variant(const std::string& value) {
    const auto found = position(variant_names(), value);
    if (!found) return wrong(unknown(value, "variant", variant_names()));
    entry_.variant = all_variants[*found];
    return {};
  }

  Result<void> take_chunks(const std::string& value) {
    const std::uint64_t count = PENSTOCK_TRY(number(value));
    constexpr std::uint64_t most = TuningEntry::any_ranks;
    if (count == 0) return wrong("chunks=0; leave it out for as few as fit");
    entry_.chunks = static_cast<std::uint32_t>(std::min(count, most));
    return {};
  }

  Result<void> take_scratch(const std::string& value) {
    constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    const std::uint64_t bytes = PENSTOCK_TRY(number(value));
    if (bytes == 0) return wrong("scratch=0; leave it out for the usual length of a chunk");
    entry_.scratch_from = static_cast<std::uint32_t>(std::min(bytes, most));
    return {};
  }

  Result<void> take_ranks(const std::string& key, const std::string& value,
                          std::uint32_t* min_ranks, std::uint32_t* max_ranks) {
    std::uint64_t min = 1, max = TuningEntry::any_bytes;
    PENSTOCK_TRY(take_range(value, &min, &max));
    constexpr std::uint64_t most = TuningEntry::any_ranks;
    if (min >= most || (max >= most && max != TuningEntry::any_bytes))
      return wrong(fmt::format("{}={}: there are never so many", key, value));
    *min_ranks = static_cast<std::uint32_t>(min);
    *max_ranks = static_cast<std::uint32_t>(std::min(max, most));
    return {};
  }

  /// "any" leaves both unchanged.
  static Result<void> take_range(const std::string& value, std::uint64_t* min, std::uint64_t* max) {
    if (value == "any") return {};
    const std::size_t dash = value.find('-');
    *min = PENSTOCK_TRY(number(value.substr(0, dash)));
    if (dash == std::string::npos)
      *max = *min;
    else if (dash + 1 < value.size())
      *max = PENSTOCK_TRY(number(value.substr(dash + 1)));
    return {};
  }

  static Result<std::uint64_t> number(const std::string& text) {
    auto bytes = base::parse_bytes(text);
    if (bytes) return bytes;
    return fail(ErrorCode::invalid_argument,
                "\"{}\" is no number; needed: as 4, 64K or 1M, or a range as 2-4, 2- or any", text);
  }

  const Words& words_;
  TuningEntry entry_;
  bool has_way_ = false;
  Words keys_;
};

/// Parses the entries of a line without its comment.
Result<void> take_line(std::string_view line, Tuning* tuning) {
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(';', at), line.size());
    const Words words = words_of(line.substr(at, end - at));
    at = end + 1;
    if (words.empty()) continue;
    tuning->entries.push_back(PENSTOCK_TRY(Line(words).parse()));
    if (tuning->entries.size() > Tuning::max_entries)
      return fail(ErrorCode::invalid_argument,
                  "more than {} entries; a table holds at most so many", Tuning::max_entries);
  }
  return {};
}

std::string range_text(std::uint64_t min, std::uint64_t max, std::uint64_t least,
                       std::uint64_t most) {
  if (min == least && max == most) return "any";
  if (min == max) return fmt::format("{}", min);
  return max == most ? fmt::format("{}-", min) : fmt::format("{}-{}", min, max);
}

}  // namespace

std::string print(const TuningEntry& e) {
  std::string text =
      fmt::format("{} ranks={} bytes={}", e.collective ? name_of(*e.collective) : "all",
                  range_text(e.min_ranks, e.max_ranks, 1, TuningEntry::any_ranks),
                  range_text(e.min_bytes, e.max_bytes, 0, TuningEntry::any_bytes));
  if (!e.covers_all_nodes())
    text += " per-node=" + range_text(e.min_per_node, e.max_per_node, 1, TuningEntry::any_ranks);
  text += fmt::format(" {}", e.eager ? "eager" : name_of(e.algorithm));
  if (e.variant != Variant::all) text += fmt::format(" variant={}", name_of(e.variant));
  if (e.chunk_bytes != 0) text += fmt::format(" chunk={}", e.chunk_bytes);
  if (e.chunks != 0) text += fmt::format(" chunks={}", e.chunks);
  if (e.turns) text += " turns=1";
  if (e.in_switch) text += " switch=1";
  if (e.scratch_from != 0) text += fmt::format(" scratch={}", e.scratch_from);
  return text;
}

std::string print(const Tuning& tuning) {
  std::string text;
  for (const TuningEntry& entry : tuning.entries) text += print(entry) + "\n";
  return text;
}

Result<Tuning> parse_tuning(std::string_view text) {
  Tuning tuning;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    auto taken = take_line(line.substr(0, line.find('#')), &tuning);
    ++number;
    if (!taken)
      return fail(ErrorCode::invalid_argument, "line {}: {}", number, taken.error().message);
  }
  return tuning;
}

}  // namespace penstock::coll

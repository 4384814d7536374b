// The object holds the bytes of encode() from the moment its name appears, and never changes: a new
// table is a new object. The arena publishes contents before names, so a reader needs no word that
// says "written". The reader verifies the checksum (rule 6), because the object may be destroyed,
// and its space reused, during the read.
#include "coll/tuning_store.hpp"

#include <mutex>
#include <set>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::coll {

namespace {

/// If two processes replace the table at the same time, one of them must try again.
constexpr int attempts = 16;

bool is_gone(const Error& error) {
  return error.code == ErrorCode::not_found;
}

/// The commands that replace or remove a damaged table.
std::string mending(arena::Arena& arena) {
  const std::string spec = base::shell_quote(arena.pool().info().spec);
  return fmt::format(
      "measure it anew: penstock bench tune --pool {}, or remove it: penstock bench tune --pool {} "
      "--reset",
      spec, spec);
}

void warn_once(const std::string& text) {
  static std::mutex mutex;
  static auto* said = new std::set<std::string>;
  const std::lock_guard<std::mutex> guard(mutex);
  if (said->insert(text).second) base::log(base::Level::warn, "{}", text);
}

/// Whether the text is a table, such as "allreduce ...", and not a path.
bool is_inline(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\n;");
  if (begin == std::string_view::npos) return false;
  const std::string_view rest = text.substr(begin);
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t\n;"));
  return word.size() < rest.size() && word.find('/') == std::string_view::npos;
}

std::shared_ptr<const Tuning> named_tuning(const std::string& value) {
  const bool is_text = is_inline(value);
  const std::string text = is_text ? value : base::read_file(value);
  const auto refused = [&](const std::string& why) {
    warn_once(fmt::format(
        "PENSTOCK_COLL_TUNING: {}{}; the built-in tuning table is used. The form: penstock bench "
        "tune --print",
        is_text ? "" : base::shell_quote(value) + ": ", why));
    return nullptr;
  };
  if (text.empty()) return refused("there is no such file, or it is empty or cannot be read");
  auto tuning = parse_tuning(text);
  if (!tuning) return refused(tuning.error().message);
  tuning->origin = "PENSTOCK_COLL_TUNING";
  return std::make_shared<Tuning>(*std::move(tuning));
}

}  // namespace

Result<void> store_tuning(arena::Arena& arena, const Tuning& tuning) {
  PENSTOCK_TRY(check(tuning));
  const auto bytes = encode(tuning);
  for (int attempt = 1;; ++attempt) {
    PENSTOCK_TRY(remove_tuning(arena));
    const auto made = arena.create(tuning_name, bytes.size(), {.contents = bytes.data()});
    if (made) return {};
    if (made.error().code != ErrorCode::already_exists || attempt == attempts)
      return unexpected(made.error());
  }
}

Result<bool> remove_tuning(arena::Arena& arena) {
  const auto found = arena.open(tuning_name);
  if (!found && is_gone(found.error())) return false;
  if (!found) return unexpected(found.error());
  const auto destroyed = arena.destroy(*found);
  if (!destroyed && !is_gone(destroyed.error())) return unexpected(destroyed.error());
  return destroyed.has_value();
}

Result<std::optional<Tuning>> load_tuning(arena::Arena& arena) {
  std::uint64_t generation = 0;
  for (;;) {
    const auto found = arena.open(tuning_name);
    if (!found && is_gone(found.error())) return std::nullopt;
    if (!found) return unexpected(found.error());
    std::vector<std::byte> bytes(std::min<std::uint64_t>(found->bytes, max_tuning_bytes));
    arena.pool().memory().observe_bulk(bytes.data(), found->data, bytes.size());
    auto tuning = decode(bytes);
    if (tuning) return *std::move(tuning);
    // The object may have been destroyed during the read. If it is still there, it is damaged.
    if (found->generation == generation)
      return fail(ErrorCode::wrong_format, "the tuning table in pool {} is damaged: {}; {}",
                  arena.pool().info().spec, tuning.error().message, mending(arena));
    generation = found->generation;
  }
}

std::shared_ptr<const Tuning> tuning_in_force(arena::Arena& arena) {
  const std::string value = base::env_text("PENSTOCK_COLL_TUNING");
  if (value == "default") return nullptr;
  if (!value.empty()) return named_tuning(value);
  auto tuning = load_tuning(arena);
  if (!tuning) {
    warn_once(tuning.error().message + "; the built-in one is used");
    return nullptr;
  }
  if (!*tuning) return nullptr;
  return std::make_shared<Tuning>(**std::move(tuning));
}

}  // namespace penstock::coll

#include "apart.hpp"

#include <array>

#include "base/checksum.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::plugin {

namespace {

using Line = std::array<std::byte, coherence::line_bytes>;

/// A key may be longer than the names of a pool.
std::string name_of(const std::string& job, std::int32_t rank) {
  return fmt::format("penstock.apart.{:016x}.{}", base::xxh64(job.data(), job.size(), 0), rank);
}

}  // namespace

const char* apart_text(Apart why) {
  switch (why) {
    case Apart::unloaded:
      return "libpenstock-mpi.so is not in its process: LD_PRELOAD must name it on all hosts";
    case Apart::unseen:
      return "its program calls MPI past libpenstock-mpi.so: with an MPI that is linked "
             "statically, or from a library that was loaded with RTLD_DEEPBIND";
    case Apart::no_collectives:
      break;
  }
  return "PENSTOCK_COLL=none is set there: it must be the same on all ranks";
}

void tell_apart(const Session& session, Apart why) {
  if (session.launch.rank < 0 || session.launch.job.empty()) return;
  Line line{};
  line[0] = static_cast<std::byte>(why);
  const auto told =
      session.arena->create(name_of(session.launch.job, session.launch.rank), line.size(),
                            {.lifetime = arena::Lifetime::process, .contents = line.data()});
  if (!told && told.error().code != ErrorCode::already_exists)
    base::log(base::Level::info, "others do not learn that this rank takes no part: {}",
              told.error().message);
}

std::optional<Apart> told_apart(const Session& session, std::int32_t rank) {
  if (session.launch.job.empty()) return std::nullopt;
  const auto told = session.arena->open(name_of(session.launch.job, rank));
  if (!told || told->bytes != coherence::line_bytes) return std::nullopt;
  Line line{};
  session.pool->memory().observe_line(line.data(), told->data);
  const auto why = static_cast<std::uint8_t>(line[0]);
  const bool known = why >= static_cast<std::uint8_t>(Apart::unloaded) &&
                     why <= static_cast<std::uint8_t>(Apart::no_collectives);
  return known ? static_cast<Apart>(why) : Apart::unloaded;
}

}  // namespace penstock::plugin

#include "fallback.hpp"

#include <mutex>
#include <set>

#include "base/log.hpp"
#include "session/session.hpp"

namespace penstock::mpi {

namespace {

std::mutex said_mutex;
std::set<std::string> said;

}  // namespace

void refuse(const std::string& why) {
  plugin::end_process_if_required(why);
  const std::lock_guard<std::mutex> guard(said_mutex);
  if (!said.insert(why).second) return;
  base::log(base::Level::warn, "windows stay with the MPI: {}", why);
}

}  // namespace penstock::mpi

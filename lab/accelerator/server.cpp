#include "accelerator/server.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "pool/members.hpp"

namespace penstock::accelerator {

namespace {

using offload::Answer;
using offload::Ask;

/// Lines of asks that are read together.
constexpr std::uint32_t slots_at_once = 64;
constexpr std::uint64_t care_interval_ns = 20'000'000;

std::uint64_t key_of(std::uint32_t slot, std::uint32_t word) {
  return std::uint64_t{slot} * offload::asks_of_a_process + word;
}

void add(Counts& to, const Counts& from) {
  to.chunks += from.chunks;
  to.commands += from.commands;
  to.completions += from.completions;
  to.failures += from.failures;
  to.traffic.gathered_bytes += from.traffic.gathered_bytes;
  to.traffic.result_bytes += from.traffic.result_bytes;
  to.traffic.reduced_bytes += from.traffic.reduced_bytes;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::open(ServerOptions options) {
  auto pool = PENSTOCK_TRY(options.attach({}));
  auto arena = PENSTOCK_TRY(arena::Arena::open(*pool));
  const auto directory = PENSTOCK_TRY(offload::Directory::find_or_make(*arena));
  std::unique_ptr<Server> server(
      new Server(std::move(options), std::move(pool), std::move(arena), directory));
  server->note_old_asks();
  auto claimed = offload::take_claim(directory, server->options_.role);
  if (!claimed) {
    // The claim's holder may be dead: if it was on another host, that shows after a lease.
    PENSTOCK_TRY(server->pool_->members().make_certain());
    server->note_old_asks();
    claimed = offload::take_claim(directory, server->options_.role);
  }
  if (!claimed) return unexpected(claimed.error());
  return server;
}

Server::Server(ServerOptions options, std::unique_ptr<pool::Pool> pool,
               std::unique_ptr<arena::Arena> arena, offload::Directory directory)
    : options_(std::move(options)),
      pool_(std::move(pool)),
      arena_(std::move(arena)),
      directory_(std::move(directory)),
      asked_(directory_.processes()),
      seen_asks_(directory_.processes()) {}

Server::~Server() {
  if (pool_->attached_here()) (void)close();
}

Result<void> Server::close() {
  if (std::exchange(closed_, true)) return {};
  auto given = offload::give_claim_back(directory_, options_.role);
  for (auto& [key, client] : served_) add(gone_, client.served->counts());
  served_.clear();
  return given;
}

/// Called before the claim is taken: asks found now were made to an earlier switch, and their ranks
/// have left it, or will.
void Server::note_old_asks() {
  const auto& memory = pool_->memory();
  for (std::uint32_t slot = 0; slot < directory_.processes(); ++slot)
    memory.invalidate(pool_->base() + directory_.ask_line(slot), coherence::line_bytes);
  memory.load_fence();
  for (std::uint32_t slot = 0; slot < directory_.processes(); ++slot)
    memory.load_line(asked_[slot].data(), pool_->base() + directory_.ask_line(slot));
}

bool Server::poll() {
  if (closed_) return false;
  bool moved = look_at_asks();
  for (auto& [key, client] : served_) moved |= client.served->poll();
  const std::uint64_t now = base::now_ns();
  if (now >= next_care_ns_) {
    next_care_ns_ = now + care_interval_ns;
    look_after();
  }
  return moved;
}

/// Reads some lines, the next ones each time.
bool Server::look_at_asks() {
  const auto& memory = pool_->memory();
  const std::uint32_t all = directory_.processes();
  const std::uint32_t begin = next_slot_;
  const std::uint32_t end = std::min(begin + slots_at_once, all);
  next_slot_ = end == all ? 0 : end;
  for (std::uint32_t slot = begin; slot < end; ++slot)
    memory.invalidate(pool_->base() + directory_.ask_line(slot), coherence::line_bytes);
  memory.load_fence();
  bool some = false;
  for (std::uint32_t slot = begin; slot < end; ++slot)
    memory.load_line(seen_asks_[slot].data(), pool_->base() + directory_.ask_line(slot));
  for (std::uint32_t slot = begin; slot < end && !closed_; ++slot) {
    for (std::uint32_t word = 0; word < offload::asks_of_a_process && !closed_; ++word) {
      const Ask ask{seen_asks_[slot][word]};
      if (ask.word == asked_[slot][word] || !ask.is_one()) continue;
      take(slot, word, ask);
      some = true;
    }
  }
  return some;
}

void Server::take(std::uint32_t slot, std::uint32_t word, Ask ask) {
  asked_[slot][word] = ask.word;
  // The word's previous ask has ended, whatever follows. Its memory exists until the answer; if a
  // foreign process has asked, the ranks find that they are no longer served.
  const auto found = served_.find(key_of(slot, word));
  if (found != served_.end()) {
    const Client& client = found->second;
    client.job->pool->confirm();
    const auto& region = client.served->region();
    offload::publish_member(*client.job->pool, region, region.switch_line(options_.role.number),
                            {});
    client.job->pool->memory().store_fence();  // the answer's fence belongs to another attachment
    stop_serving(found->first);
  }
  const Answer given = ask.region() == 0 ? Answer::gone : accept(slot, word, ask);
  if (closed_) return;  // another switch answers this ask
  answer(slot, word, ask.answered(given));
}

void Server::answer(std::uint32_t slot, std::uint32_t word, std::uint64_t value) {
  const auto& memory = pool_->memory();
  pool_->confirm();
  // The switch's identity comes before its answer that it serves; after it has let go of a region,
  // it stores nothing to it.
  memory.store_fence();
  memory.publish_word(pool_->base() + directory_.answer_line(options_.role.number, slot) + word * 8,
                      value);
  memory.store_fence();
}

Answer Server::accept(std::uint32_t slot, std::uint32_t word, Ask ask) {
  const auto region = offload::find_region(*pool_, ask.region());
  if (!region) {
    base::log(base::Level::warn, "an ask of slot {} is refused: {}", slot, region.error().message);
    return Answer::refused;
  }
  const auto records = pool_->members().processes();
  const auto owner = std::find_if(records.begin(), records.end(), [&](const auto& record) {
    return record.slot == slot && record.token() == region->shape().owner;
  });
  if (region->shape().leaves != options_.role.leaves) return Answer::refused;
  // Its rings would hold packets that were answered before: a region is served once.
  if (offload::observe_member(*pool_, *region, region->switch_line(options_.role.number)))
    return Answer::refused;
  // Without a job its memory could get another owner while it is served.
  if (owner == records.end() || !owner->attached || owner->job.empty()) return Answer::refused;
  auto job = join(owner->job);
  if (!job) {
    base::log(base::Level::warn, "cannot join the job {}: {}", base::printable(owner->job),
              job.error().message);
    return Answer::no_room;
  }
  offload::publish_member(*(*job)->pool, *region, region->switch_line(options_.role.number),
                          {.token = (*job)->pool->token()});
  // A switch that has taken the claim instead did so before this look, or it finds that line. The
  // line is fenced by its own attachment; the answer's fence belongs to another.
  (*job)->pool->memory().full_fence();
  if (!has_claim()) return Answer::none;
  auto served = serve(options_.role, *(*job)->pool, *region, options_.missing_after_ns);
  served_[key_of(slot, word)] = {*std::move(job), std::move(served)};
  ++accepted_;
  return Answer::served;
}

Result<std::shared_ptr<Server::Job>> Server::join(const std::string& name) {
  if (auto there = jobs_[name].lock()) return there;
  auto joined = std::make_shared<Job>();
  joined->name = name;
  joined->pool = PENSTOCK_TRY(options_.attach({.rank = pool::helper_rank, .job = name}));
  jobs_[name] = joined;
  return joined;
}

/// If not, another switch has the claim, or may have it, and this one serves no more ranks.
bool Server::has_claim() {
  auto kept = offload::keep_claim(directory_, options_.role);
  if (kept) return true;
  base::log(base::Level::error, "this switch has lost the pool: {}", kept.error().message);
  lost_ = kept.error();
  (void)close();
  return false;
}

void Server::stop_serving(std::uint64_t key) {
  const auto found = served_.find(key);
  if (found == served_.end()) return;
  add(gone_, found->second.served->counts());
  served_.erase(found);
  std::erase_if(jobs_, [](const auto& job) { return job.second.expired(); });
}

void Server::look_after() {
  if (!has_claim()) return;
  std::vector<std::uint64_t> deserted;
  for (auto& [key, client] : served_) {
    client.served->check_ranks();
    if (client.served->is_deserted()) deserted.push_back(key);
  }
  for (const std::uint64_t key : deserted) stop_serving(key);
}

Counts Server::counts() const {
  Counts all = gone_;
  for (const auto& [key, client] : served_) add(all, client.served->counts());
  return all;
}

}  // namespace penstock::accelerator

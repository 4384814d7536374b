// Who has died, what that means for the caches of its node, and when what it owned may be given
// back (docs/protocols/quarantine.md).
#include <set>

#include "pool/impl.hpp"
#include "pool/node_table.hpp"

namespace penstock::pool {

/// Whatever it had stored may be dirty in its node's caches, and whatever others had stored to what
/// it owned in theirs: they may have died as well, and nobody knows yet.
void Pool::Impl::record_death(const SlotView& dead) const {
  auto nodes = nodes_of_others();
  nodes.insert(dead.line.node);
  for (const std::uint32_t each : nodes) flushes.record_death(each);
}

/// Where processes are attached, as far as the table says.
std::set<std::uint32_t> Pool::Impl::nodes_of_others() const {
  std::set<std::uint32_t> nodes;
  if (!memory.loads_may_be_stale()) return nodes;
  for (const SlotView& view : processes.used()) {
    const bool attached = view.line.state == static_cast<std::uint32_t>(SlotState::attached);
    if (attached && view.slot != slot) nodes.insert(view.line.node);
  }
  return nodes;
}

void Pool::Impl::note_death(std::uint64_t of_token) {
  if (of_token == 0 || is_visitor(of_token)) return;
  const std::lock_guard hold(noted_mutex);
  if (recorded.count(of_token) == 0) noted.insert(of_token);
}

void Pool::record_known_deaths() {
  const std::lock_guard hold(impl_->noted_mutex);
  for (const std::uint64_t dead : impl_->noted) {
    const SlotView view = impl_->processes.state(static_cast<std::uint32_t>(slot_of(dead)));
    if (view.line.generation == generation_of(dead)) impl_->record_death(view);
    impl_->recorded.insert(dead);
  }
  impl_->noted.clear();
}

void Pool::record_unknown_deaths() {
  for (const std::uint32_t each : impl_->nodes_of_others()) impl_->flushes.record_death(each);
}

bool Pool::given_up_still_here() const {
  for (const SlotView& view : impl_->processes.used()) {
    const bool attached = view.line.state == static_cast<std::uint32_t>(SlotState::attached);
    const bool given_up =
        view.line.state == static_cast<std::uint32_t>(SlotState::reaped) ||
        (attached && impl_->verdicts.judge_of(make_token(view.line.generation, view.slot)));
    if (given_up && impl_->liveness.still_exists(view)) return true;
  }
  return false;
}

/// A survivor may not have noticed the death yet and still write what is the dead's, such as the
/// credits of a channel. Those who share a channel are of one job.
bool Pool::Impl::outlived_by_its_job(const SlotView& dead) {
  const std::string job = processes.job(dead.slot);
  if (job.empty()) return false;
  for (const SlotView& view : processes.used()) {
    const bool attached = view.line.state == static_cast<std::uint32_t>(SlotState::attached);
    if (view.slot == dead.slot || !attached || processes.job(view.slot) != job) continue;
    if (liveness.alive(view)) return true;
  }
  return false;
}

/// To ask after each is slow, so the lock is not held meanwhile.
std::vector<std::uint32_t> Pool::Impl::seem_dead() {
  std::vector<std::uint32_t> found;
  for (const SlotView& view : processes.used()) {
    const bool attached = view.line.state == static_cast<std::uint32_t>(SlotState::attached);
    if (!view.whole || (attached && !liveness.alive(view))) found.push_back(view.slot);
  }
  return found;
}

Result<std::uint32_t> Pool::reap(const std::function<void(std::uint64_t token)>& on_dead) {
  const std::vector<std::uint32_t> suspects = impl_->seem_dead();
  if (suspects.empty()) return 0;
  auto guard = lock();
  if (!guard) return unexpected(guard.error());
  std::uint32_t reaped = 0;
  for (const std::uint32_t slot : suspects) {
    const SlotView view = impl_->processes.state(slot);
    const bool attached = view.line.state == static_cast<std::uint32_t>(SlotState::attached);
    if ((view.whole && !attached) || impl_->liveness.alive(view)) continue;
    if (impl_->outlived_by_its_job(view)) continue;
    impl_->record_death(view);
    if (on_dead) on_dead(make_token(view.line.generation, view.slot));
    impl_->confirm();
    impl_->processes.set_state(view.slot, view.line.generation, SlotState::reaped);
    ++reaped;
  }
  return reaped;
}

bool Pool::bury(std::uint64_t token) {
  if (token == 0 || is_visitor(token)) return true;
  if (alive(token)) return false;
  const SlotView view = impl_->processes.state(static_cast<std::uint32_t>(slot_of(token)));
  const bool unrecorded = view.line.generation == generation_of(token) &&
                          view.line.state == static_cast<std::uint32_t>(SlotState::attached);
  if (!unrecorded) return true;
  if (impl_->outlived_by_its_job(view)) return false;
  impl_->record_death(view);
  return true;
}

const FlushTable& Pool::flushes() const {
  return impl_->flushes;
}

std::vector<std::uint32_t> Pool::nodes_of_these_caches() const {
  std::vector<std::uint32_t> found{impl_->node};
  if (impl_->info.mode == coherence::Mode::simulated) return found;
  const NodeTable nodes(impl_->memory, impl_->base, impl_->superblock);
  for (std::uint32_t node = 0; node < impl_->superblock.max_nodes; ++node) {
    const auto line = nodes.read(node);
    if (node != impl_->node && line && line->boot_id == impl_->self.host.boot_id)
      found.push_back(node);
  }
  return found;
}

void Pool::on_beat(const void* owner, std::function<void()> chore) {
  const std::lock_guard hold(impl_->chores_mutex);
  if (chore) {
    impl_->chores[owner] = std::move(chore);
  } else {
    impl_->chores.erase(owner);
  }
}

}  // namespace penstock::pool

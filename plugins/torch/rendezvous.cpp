#include "rendezvous.hpp"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

namespace penstock::torch {

namespace {

std::string first_line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

/// A string that is equal for all processes on this host since its last boot.
std::string host_identity() {
  return first_line_of("/proc/sys/kernel/random/boot_id") + " " + host_name();
}

std::string random_name() {
  std::random_device random;
  std::ostringstream name;
  name << std::hex << random() << random();
  return name.str();
}

std::string comings_of(int rank) {
  return "penstock/comings/" + std::to_string(rank);
}

std::string make_temporary_pool(int ranks) {
  char spec[64] = "";
  const auto status =
      penstock_pool_create_temporary(static_cast<std::uint32_t>(ranks), spec, sizeof spec);
  if (status != PENSTOCK_OK) throw_last_error(status);
  return spec;
}

/// The description of the pool that rank 0 sends to the others.
struct Invitation {
  std::string spec, job, host;
  std::string text() const { return spec + "\n" + job + "\n" + host; }
  static Invitation parse(const std::string& text) {
    std::istringstream lines(text);
    Invitation parsed;
    std::getline(lines, parsed.spec);
    std::getline(lines, parsed.job);
    std::getline(lines, parsed.host);
    return parsed;
  }
};

std::mutex mutex;
std::weak_ptr<Attached> current;  // of the first group: tensors are allocated there
std::string current_job;
std::map<std::string, std::weak_ptr<Attached>> by_spec;

}  // namespace

void throw_last_error(penstock_status_t status) {
  const std::string words = std::string("penstock: ") + penstock_last_error();
  if (status == PENSTOCK_INVALID_ARGUMENT) C10_THROW_ERROR(ValueError, words);
  C10_THROW_ERROR(DistBackendError, words);
}

/// Calls the store. Replaces its own errors ("Broken pipe"), which do not name the failed process.
template <class Ask>
auto Meeting::asked(const Ask& ask) const {
  try {
    return ask(*store_);
  } catch (const std::exception& error) {
    const std::string words = error.what();
    C10_THROW_ERROR(DistBackendError,
                    "penstock: the store by which the ranks of a process group meet does not "
                    "answer (" +
                        words.substr(0, words.find('\n')) +
                        "): the process that serves "
                        "it, by default rank 0, has died or ended; see what it says, and start the "
                        "ranks anew");
  }
}

Meeting::Meeting(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::uint64_t token)
    : store_(std::move(store)), rank_(rank), size_(size) {
  do {
    coming_ = asked([&](c10d::Store& s) { return s.add(comings_of(rank), 1); });
    // No rank still reads the keys of the group before the last one, because all ranks had left it
    // when the last one began.
    if (coming_ > 2) forget(coming_ - 2);
  } while (is_over());
  if (token != 0) publish("token", std::to_string(token));
}

void Meeting::forget(std::int64_t coming) const {
  Meeting before = *this;
  before.coming_ = coming;
  const auto forget = [&](const char* topic, int rank) {
    asked([&](c10d::Store& s) { return s.deleteKey(before.key(topic, rank)); });
  };
  for (const char* const topic : {"token", "comm", "address"}) forget(topic, rank_);
  if (rank_ != 0) return;
  // "late" and "trouble" stay, for ranks that have not yet come to this meeting.
  for (const char* const topic : {"pool", "comm/all"}) forget(topic, 0);
}

bool Meeting::has(const std::string& key) const {
  return asked([&](c10d::Store& s) { return s.check({key}); });
}

/// How often `rank` has come.
std::int64_t Meeting::comings(int rank) const {
  const std::string counter = comings_of(rank);
  return has(counter) ? asked([&](c10d::Store& s) { return s.add(counter, 0); }) : 0;
}

/// Whether ranks have given up this meeting because others had not come, or have moved to a later
/// one. This rank then meets them there.
bool Meeting::is_over() const {
  if (has(key("late", 0))) return true;
  if (published("trouble", 0).empty()) return false;
  bool over = false;
  for (int rank = 0; rank < size_ && !over; ++rank) over = comings(rank) > coming_;
  return over;
}

std::string Meeting::key(const std::string& topic, int rank) const {
  return "penstock/" + std::to_string(coming_) + "/" + topic + "/" + std::to_string(rank);
}

void Meeting::publish(const std::string& topic, const std::string& text) const {
  asked([&](c10d::Store& s) { s.set(key(topic, rank_), text); });
}

std::string Meeting::published(const std::string& topic, int rank) const {
  const std::string wanted = key(topic, rank);
  if (!has(wanted)) return "";
  return asked([&](c10d::Store& s) { return s.get_to_str(wanted); });
}

std::uint64_t Meeting::token(int rank) const {
  const std::string text = published("token", rank);
  return text.empty() ? 0 : std::stoull(text);
}

/// The `missing` ranks in words; empty: none.
std::string Meeting::names_of(const std::function<bool(int rank)>& missing) const {
  constexpr int most = 8;
  std::string names;
  int found = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (!missing(rank) || ++found > most) continue;
    names += (names.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (found == 0) return "";
  if (found > most) names += " and " + std::to_string(found - most) + " others";
  return (found == 1 ? "rank " : "ranks ") + names;
}

/// Why `awaited` has not published `topic` yet: rank 0 may itself wait for other ranks.
std::string Meeting::who_is_late(const std::string& topic, int awaited,
                                 const std::string& group) const {
  const std::string of_all = topic.substr(0, topic.find('/'));
  const std::string one = "rank " + std::to_string(awaited);
  std::string late = one;
  if (topic != "pool") late = names_of([&](int rank) { return !has(key(of_all, rank)); });
  const std::string absent = names_of([&](int rank) { return comings(rank) < coming_; });
  return (late.empty() ? one : late) + " of process group " + group +
         " has not come to its first collective" +
         (absent.empty() || absent == late ? "" : " (not in the group at all: " + absent + ")");
}

void Meeting::check_alive(int rank, const std::string& group, penstock_pool_t* pool) const {
  char who[256] = "";
  const std::uint64_t its = pool != nullptr && rank != rank_ ? token(rank) : 0;
  if (its == 0 || penstock_pool_alive(pool, its, who, sizeof who) != 0) return;
  C10_THROW_ERROR(DistBackendError, "penstock: rank " + std::to_string(rank) +
                                        " of process group " + group + ", " + who +
                                        ", has died or left");
}

std::string Meeting::await(const std::string& topic, int rank, const std::string& group,
                           const Patience& patience) const {
  constexpr std::chrono::milliseconds between_checks{100};
  const auto begin = std::chrono::steady_clock::now();
  auto next_check = begin + between_checks;
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    const std::string text = published(topic, rank);
    if (!text.empty()) return text;
    const std::string failure = published("trouble", 0);
    if (!failure.empty())
      C10_THROW_ERROR(DistBackendError,
                      "penstock: process group " + group + " has not met: " + failure);
    if (patience.cancelled != 0)
      C10_THROW_ERROR(DistBackendError,
                      "penstock: process group " + group + " was aborted while its ranks met");
    const auto now = std::chrono::steady_clock::now();
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - begin);
    if (waited > patience.timeout) {
      const std::string late = who_is_late(topic, rank, group);
      asked([&](c10d::Store& s) { s.set(key("late", 0), late); });
      C10_THROW_ERROR(DistBackendError,
                      "penstock: " + late + " within " + std::to_string(patience.timeout.count()) +
                          " ms: see what it does instead, or give init_process_group a longer " +
                          "timeout");
    }
    if (now > next_check) {
      check_alive(rank, group, patience.pool);
      next_check = now + between_checks;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20'000));
  }
}

std::string Meeting::from_all(const std::string& topic, const std::string& mine,
                              const std::string& group, const Patience& patience) const {
  publish(topic, mine);
  if (rank_ != 0) return await(topic + "/all", 0, group, patience);
  std::string all = mine;
  for (int rank = 1; rank < size_; ++rank) all += await(topic, rank, group, patience);
  publish(topic + "/all", all);
  return all;
}

void Meeting::give_up(const std::string& why) const {
  const std::string failure_key = key("trouble", 0);
  const std::string words = "rank " + std::to_string(rank_) + " on " + host_name() +
                            " could not join: " + why.substr(0, why.find('\n'));
  try {
    if (has(failure_key)) return;
    asked([&](c10d::Store& s) { s.set(failure_key, words); });
  } catch (const c10::Error&) {  // no rank can be told, and `why` matters more
  }
}

Attached::Attached(penstock_pool_t* pool, std::string spec)
    : pool_(pool),
      spec_(std::move(spec)),
      process_(::getpid()),
      tensors_(std::make_unique<TensorMemory>(pool)) {
  penstock_pool_info_t info{};
  if (penstock_pool_info(pool, &info) == PENSTOCK_OK) token_ = info.token;
}

bool Attached::is_here() const {
  return process_ == ::getpid();
}

std::shared_ptr<Attached> Attached::attach(const Meeting& meeting, const std::string& spec,
                                           const std::string& job, bool is_made_here) {
  const std::lock_guard<std::mutex> guard(mutex);
  auto there = by_spec[spec].lock();
  if (there == nullptr || !there->is_here()) {
    penstock_attach_options_t options{};
    options.struct_bytes = sizeof options;
    options.rank = meeting.rank();
    options.job = job.c_str();
    options.reserved_names = 1;  // hides its objects in the pool from users
    penstock_pool_t* pool = nullptr;
    const auto status = penstock_pool_attach(spec.c_str(), &options, &pool);
    if (status != PENSTOCK_OK) {
      if (is_made_here) penstock_pool_remove(spec.c_str(), 1);
      throw_last_error(status);
    }
    there.reset(new Attached(pool, spec));
    by_spec[spec] = there;
  }  // else it belongs to another group, or to another rank in this process
  if (is_made_here) there->remove_by_ = ::getpid();
  const auto first = current.lock();
  if (first == nullptr || !first->is_here()) {
    current = there;
    current_job = job;
  }
  return there;
}

std::shared_ptr<Attached> Attached::invite(const Meeting& meeting) {
  Invitation own;
  const auto before = there();
  {
    const std::lock_guard<std::mutex> guard(mutex);
    own.job = before != nullptr ? current_job : "torch-" + random_name();
  }
  own.spec = before != nullptr ? before->spec() : penstock_default_spec();
  own.host = host_identity();
  const bool made = own.spec.empty();
  if (made) own.spec = make_temporary_pool(meeting.size());
  auto attached = attach(meeting, own.spec, own.job, made);
  meeting.publish("pool", own.text());
  return attached;
}

std::shared_ptr<Attached> Attached::accept(const Meeting& meeting, const std::string& group,
                                           const Patience& patience) {
  const auto first = Invitation::parse(meeting.await("pool", 0, group, patience));
  const std::string named = penstock_default_spec();
  TORCH_CHECK(!named.empty() || first.host == host_identity(), "penstock: rank ", meeting.rank(),
              " of process group ", group, " runs on ", host_name(),
              " and rank 0 on another host (", first.host.substr(first.host.find(' ') + 1),
              "): set PENSTOCK_POOL on all hosts to a pool that all of them share");
  return attach(meeting, named.empty() ? first.spec : named, first.job, false);
}

std::shared_ptr<Attached> Attached::there() {
  const std::lock_guard<std::mutex> guard(mutex);
  const auto attached = current.lock();
  return attached != nullptr && attached->is_here() ? attached : nullptr;
}

void Attached::leave() {
  const std::lock_guard<std::mutex> guard(mutex);
  for (const auto& [spec, attached] : by_spec)
    if (const auto there = attached.lock()) there->remove();
}

void Attached::remove() {
  if (remove_by_ == ::getpid()) penstock_pool_remove(spec_.c_str(), 1);
  remove_by_ = 0;
}

Attached::~Attached() {
  tensors_.reset();
  penstock_pool_detach(pool_);
  remove();
}

}  // namespace penstock::torch
